"""Waiting for the consumers: nothing must be found twice in a row."""

from itertools import count

import pytest

from demo.traffic import queue_drain as rest
from once.ops.aws.deployment import DeployedConsumer
from once.ops.aws.queue_depth import QueueDepth
from once.ops.errors import OpsError

ORDERS = DeployedConsumer(
    "orders", "queue", "dead-letters", "once-orders", isolation_queue_url="isolation"
)
EMPTY = QueueDepth(0, 0, 0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[QueueDepth]:
    """What the queue will answer, look by look; the last answer stays."""
    answers: list[QueueDepth] = []

    def depths_of(sqs: object, urls: tuple[str, ...]) -> QueueDepth:
        assert urls == ("queue", "isolation")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(rest, "client", lambda service: None)
    monkeypatch.setattr(rest, "total_depth", depths_of)
    return answers


def wait(timeout: float = 60) -> list[str]:
    shown: list[str] = []
    rest.wait_until_drained([ORDERS], timeout=timeout, show=shown.append)
    return shown


def test_one_zero_between_messages_is_not_believed(seen: list[QueueDepth]) -> None:
    seen += [QueueDepth(5, 0, 0), EMPTY, QueueDepth(2, 0, 0), EMPTY, EMPTY, QueueDepth(9, 9, 9)]
    assert wait() == ["orders 5", "orders 0", "orders 2", "orders 0", "orders 0"]


@pytest.mark.parametrize("left", [QueueDepth(1, 0, 0), QueueDepth(0, 1, 0), QueueDepth(0, 0, 1)])
def test_messages_in_flight_and_delayed_count_too(seen: list[QueueDepth], left: QueueDepth) -> None:
    seen += [left, left, EMPTY]
    assert len(wait()) == 4


def test_overdue_queue_is_named_with_what_it_holds(
    seen: list[QueueDepth], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=20)
    monkeypatch.setattr("demo.traffic.queue_drain.time.monotonic", lambda: next(clock))
    seen.append(QueueDepth(3, 2, 1))
    with pytest.raises(OpsError, match="after 60 s") as error:
        wait(timeout=60)
    assert "orders: 3 visible, 2 in flight, 1 delayed" in str(error.value)
    assert "--timeout" in str(error.value)
