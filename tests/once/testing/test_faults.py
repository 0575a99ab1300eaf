"""Faults to order: each does what it says, also to the AWS in memory."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.once.support import Bench

NOT_DONE = [
    refused("AccessDeniedException"),
    refused("InternalServerError", status=500),
    cancelled("None"),
    never_sent(),
]


def put(bench: Bench) -> None:
    bench.client.put_item(TableName="counters", Item={"name": {"S": "a"}})


@pytest.mark.parametrize("fault", NOT_DONE, ids=["refused", "error", "cancelled", "never sent"])
def test_a_call_that_is_answered_for_the_service_is_not_done(bench: Bench, fault: Fault) -> None:
    with (
        inject(bench.client, "PutItem", fault) as left,
        pytest.raises((ClientError, ReadTimeoutError)),
    ):
        put(bench)
    assert left == []
    assert bench.aws.items("counters") == []


def test_a_call_whose_answer_is_lost_is_done(bench: Bench) -> None:
    with inject(bench.client, "PutItem", answer_lost()), pytest.raises(ReadTimeoutError):
        put(bench)
    assert len(bench.aws.items("counters")) == 1


def test_faults_come_in_their_order_and_leave_the_rest_alone(bench: Bench) -> None:
    fault = refused("AccessDeniedException")
    with inject(bench.client, "PutItem", None, fault):
        put(bench)
        with pytest.raises(ClientError, match="AccessDenied"):
            put(bench)
        put(bench)


def test_only_the_named_operation_meets_the_fault(bench: Bench) -> None:
    with inject(bench.client, "GetItem", refused("AccessDeniedException")) as left:
        put(bench)
    assert len(left) == 1


def test_after_the_block_calls_are_themselves_again(bench: Bench) -> None:
    with inject(bench.client, "PutItem", refused("AccessDeniedException")):
        pass
    put(bench)
    assert len(bench.aws.items("counters")) == 1
