"""Message groups of a standard queue: kept on every way of a message, without an order."""

from typing import Any

from tests.once.batch.batches import THIRD, batch_of
from tests.once.batch.function import Function, Make, isolated_again
from tests.once.support import record

STANDARD = "arn:aws:sqs:us-east-1:1:queue"


def shared(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Messages of one tenant on a standard queue."""
    return batch_of(*names, group="tenant-1", eventSourceARN=STANDARD, **more)


def test_a_dead_letter_of_a_standard_queue_keeps_its_message_group(function: Function) -> None:
    made = function.run(record("{", "bad", group="tenant-1", eventSourceARN=STANDARD))
    [sent] = [parameters for name, parameters in made.sqs if name == "SendMessage"]
    assert sent["MessageGroupId"] == "tenant-1"
    assert "MessageDeduplicationId" not in sent


def test_an_isolated_message_keeps_its_message_group(make: Make) -> None:
    function = make(isolation=True)
    made = function.run(*shared("a", "b", **THIRD))
    [sent] = [parameters for name, parameters in made.sqs if name == "SendMessageBatch"]
    assert [entry["MessageGroupId"] for entry in sent["Entries"]] == ["tenant-1", "tenant-1"]
    function.run(*map(isolated_again, function.isolated()))
    assert function.amounts == {"a": 1, "b": 1}


def test_a_failed_message_does_not_hold_back_its_group_on_a_standard_queue(
    function: Function,
) -> None:
    function.run(*shared("fail", "x", "y"), reports=["fail"])
    assert function.amounts == {"x": 1, "y": 1}
