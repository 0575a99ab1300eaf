"""Waiting for the consumers: nothing must be found twice in a row."""

from itertools import count

import pytest

from demo.traffic import queue_drain as rest
from once.ops.aws.deployment import Consumer
from once.ops.aws.queue_depth import Depth
from once.ops.errors import OpsError

ORDERS = Consumer("orders", "queue", "dead-letters", "once-orders", isolation_queue_url="isolation")
EMPTY = Depth(0, 0, 0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Depth]:
    """What the queue will answer, look by look; the last answer stays."""
    answers: list[Depth] = []

    def depths_of(sqs: object, urls: tuple[str, ...]) -> Depth:
        assert urls == ("queue", "isolation")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(rest, "client", lambda service: None)
    monkeypatch.setattr(rest, "depths_of", depths_of)
    return answers


def wait(timeout: float = 60) -> list[str]:
    shown: list[str] = []
    rest.wait_until_empty([ORDERS], timeout=timeout, show=shown.append)
    return shown


def test_one_zero_between_messages_is_not_believed(seen: list[Depth]) -> None:
    seen += [Depth(5, 0, 0), EMPTY, Depth(2, 0, 0), EMPTY, EMPTY, Depth(9, 9, 9)]
    assert wait() == ["orders 5", "orders 0", "orders 2", "orders 0", "orders 0"]


@pytest.mark.parametrize("left", [Depth(1, 0, 0), Depth(0, 1, 0), Depth(0, 0, 1)])
def test_messages_in_flight_and_delayed_count_too(seen: list[Depth], left: Depth) -> None:
    seen += [left, left, EMPTY]
    assert len(wait()) == 4


def test_overdue_queue_is_named_with_what_it_holds(
    seen: list[Depth], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=20)
    monkeypatch.setattr("demo.traffic.queue_drain.time.monotonic", lambda: next(clock))
    seen.append(Depth(3, 2, 1))
    with pytest.raises(OpsError, match="after 60 s") as error:
        wait(timeout=60)
    assert "orders: 3 visible, 2 in flight, 1 delayed" in str(error.value)
    assert "--timeout" in str(error.value)
