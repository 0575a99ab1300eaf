"""A check: the same seed gives the same report."""

import random
from dataclasses import replace
from pathlib import Path

from moto.moto_api._internal import mock_random

from redelivery import Fault, check
from redelivery.boundary.invocation import Call
from redelivery.examination import examine
from redelivery.formats import document
from redelivery.samples import Message, Samples
from redelivery.scenarios.scenario import scenarios

from .support import subject
from .test_right_and_wrong import IN_FULL

HAS_RANDOM_KEYS = """
    import boto3
    import os
    import uuid

    sqs, orders = boto3.client("sqs"), boto3.resource("dynamodb").Table("orders")

    def handler(event, context):
        for record in event["Records"]:
            sent = sqs.send_message(QueueUrl=os.environ["MAILS"], MessageBody=record["body"])
            orders.put_item(Item={"order_id": f"{uuid.uuid4()} {sent['MessageId']}"})
"""


def test_the_same_seed_gives_the_same_document(tmp_path: Path) -> None:
    mails = {"queues": ["mails"], "environment": {"MAILS": "{queue:mails}"}}
    given = subject(tmp_path, HAS_RANDOM_KEYS, **mails)
    documents = []
    for _ in range(2):
        random.random()  # as another process would: a check begins with other states
        mock_random.random()
        report = check(given, seed=7, only=[Fault.TIMED_OUT, Fault.REDRIVEN])
        documents.append(document(replace(report, seconds=0)))
    first, second = documents
    assert first["severity"] == "doubled"
    assert first == second


def test_another_seed_draws_other_interleavings() -> None:
    calls, one = [Call("dynamodb.PutItem", writes=True)] * 9, Samples(Message("m1", "{}"), None)
    drawn = [[s.name for s in scenarios(calls, calls, one, n, fifo=False)] for n in (7, 7, 8)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_handlers_own_threads_make_their_calls_in_one_order() -> None:
    given = IN_FULL[0].subject()
    assert given.handler == "right_and_wrong.works_in_a_pool"
    faults = [Fault.BATCH, Fault.BATCH_ANSWER_LOST]
    first, *others = (examine(given, only=faults).results for _ in range(3))
    assert [other == first for other in others] == [True, True]
