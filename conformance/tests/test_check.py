"""A check: the same seed gives the same report, and its controls are judged."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from moto.moto_api._internal import mock_random

from redelivery import Fault, check, self_check
from redelivery.boundary.invocation import Call
from redelivery.examination import examine
from redelivery.formats import document
from redelivery.samples import Message, Samples
from redelivery.scenarios.scenario import pairs, scenarios

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


def test_another_seed_draws_other_interleavings_and_pairs() -> None:
    calls, one = [Call("dynamodb.PutItem", writes=True)] * 9, Samples(Message("m1", "{}"), None)
    drawn = [[s.name for s in scenarios(calls, calls, one, n, fifo=False)] for n in (7, 7, 8)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    singles = scenarios(calls, calls, one, 7, fifo=False)
    two = [[s.name for s in islice(pairs(singles, 9, n), 20)] for n in (7, 7, 8)]
    assert two[0] == two[1]
    assert two[0] != two[2]
    assert len({*two[0]}) == 20


def test_a_handlers_own_threads_make_their_calls_in_one_order() -> None:
    given = IN_FULL[0].subject()
    assert given.handler == "right_and_wrong.works_in_a_pool"
    faults = [Fault.BATCH, Fault.BATCH_ANSWER_LOST]
    first, *others = (examine(given, only=faults).results for _ in range(3))
    assert [other == first for other in others] == [True, True]


# The self-check judges every control, once for an installed version.


def test_controls_are_judged_rightly_and_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    self_check.self_check.cache_clear()
    first = self_check.self_check()
    assert set(first.values()) == {True}
    assert len(first) == len(self_check.CONTROLS)
    self_check.self_check.cache_clear()
    monkeypatch.setattr(self_check, "_is_judged_rightly", lambda _: pytest.fail("runs again"))
    assert self_check.self_check() == first


def test_controls_that_are_judged_wrongly_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(self_check, "_is_judged_rightly", lambda control: control.judged)
    for _ in range(2):
        self_check.self_check.cache_clear()
        assert set(self_check.self_check().values()) == {True, False}
    self_check.self_check.cache_clear()
