"""Injected faults, against the AWS in memory."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.once.support import Bench

DENIED = refused("AccessDeniedException")


def put(bench: Bench) -> None:
    bench.client.put_item(TableName="counters", Item={"name": {"S": "a"}})


@pytest.mark.parametrize(
    ("fault", "items"),
    [
        pytest.param(DENIED, 0, id="refused"),
        pytest.param(refused("InternalServerError", status=500), 0, id="server error"),
        pytest.param(cancelled("None"), 0, id="cancelled"),
        pytest.param(never_sent(), 0, id="never sent"),
        pytest.param(answer_lost(), 1, id="answer lost"),
    ],
)
def test_a_call_is_done_only_if_its_answer_is_lost(bench: Bench, fault: Fault, items: int) -> None:
    error = ReadTimeoutError if fault.error is None else ClientError
    with inject(bench.client, "PutItem", fault) as left, pytest.raises(error):
        put(bench)
    assert left == []
    assert len(bench.aws.items("counters")) == items


def test_faults_meet_calls_in_order_and_later_calls_succeed(bench: Bench) -> None:
    with inject(bench.client, "PutItem", None, DENIED):
        put(bench)
        with pytest.raises(ClientError, match="AccessDenied"):
            put(bench)
        put(bench)


def test_a_fault_meets_its_operation_only_and_no_call_after_the_block(bench: Bench) -> None:
    with inject(bench.client, "GetItem", DENIED) as left:
        put(bench)
    assert len(left) == 1
    with inject(bench.client, "PutItem", DENIED):
        pass
    put(bench)
    assert len(bench.aws.items("counters")) == 1
