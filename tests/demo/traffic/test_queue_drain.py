from itertools import count

import pytest

from demo.traffic import command
from once.ops.aws.clients import QueueDepth
from once.ops.aws.deployment import DeployedConsumer
from once.ops.errors import OpsError

ORDERS = DeployedConsumer(
    "orders", "queue", "dead-letters", "once-orders", isolation_queue_url="isolation"
)
EMPTY = QueueDepth(0, 0, 0)


@pytest.fixture
def depths(monkeypatch: pytest.MonkeyPatch) -> list[QueueDepth]:
    """The depths of the queues, reading by reading; the last one repeats."""
    readings: list[QueueDepth] = []

    def total_depth(sqs: object, urls: tuple[str, ...]) -> QueueDepth:
        assert urls == ("queue", "isolation")
        return readings.pop(0) if len(readings) > 1 else readings[0]

    monkeypatch.setattr(command, "client", lambda service: None)
    monkeypatch.setattr(command, "total_depth", total_depth)
    return readings


def wait(timeout: float = 60) -> list[str]:
    shown: list[str] = []
    command.wait_until_drained([ORDERS], timeout=timeout, show=shown.append)
    return shown


def test_two_empty_readings_in_a_row_are_required(depths: list[QueueDepth]) -> None:
    depths += [QueueDepth(5, 0, 0), EMPTY, QueueDepth(2, 0, 0), EMPTY, EMPTY, QueueDepth(9, 9, 9)]
    assert wait() == ["orders 5", "orders 0", "orders 2", "orders 0", "orders 0"]


@pytest.mark.parametrize("left", [QueueDepth(1, 0, 0), QueueDepth(0, 1, 0), QueueDepth(0, 0, 1)])
def test_messages_in_flight_and_delayed_count(depths: list[QueueDepth], left: QueueDepth) -> None:
    depths += [left, left, EMPTY]
    assert len(wait()) == 4


def test_a_timeout_names_the_queue_and_its_depth(
    depths: list[QueueDepth], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=20)
    monkeypatch.setattr("demo.traffic.command.time.monotonic", lambda: next(clock))
    depths.append(QueueDepth(3, 2, 1))
    with pytest.raises(OpsError, match="after 60 s") as error:
        wait()
    assert "orders: 3 visible, 2 in flight, 1 delayed" in str(error.value)
    assert "--timeout" in str(error.value)
