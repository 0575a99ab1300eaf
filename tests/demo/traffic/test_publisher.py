"""A message is sent when its entry of the answer says so; samples are sent as distinct events."""

import json
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import pytest

from demo.traffic import publisher as publish
from demo.traffic.sample_events import COPIES, DISTINCT, send_samples
from once.ops.aws.clients import ATTEMPTS
from once.ops.errors import OpsError

THROTTLED = {"Code": "Throttled", "Message": "slow down", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "Message": "too long", "SenderFault": True}
UNMENTIONED: dict[str, Any] = {}


class Service:
    """Answers calls from a script, then accepts everything; records calls and accepted bodies.

    A step of the script maps entry ids to failures; the other entries are accepted.
    """

    def __init__(self, *script: Mapping[str, Any]) -> None:
        self._script = iter(script)
        self._lock = Lock()
        self.calls: list[list[str]] = []
        self.accepted: list[str] = []

    def __call__(self, bodies: Mapping[str, str]) -> dict[str, Any]:
        with self._lock:
            failures = next(self._script, {})
            self.calls.append(list(bodies.values()))
            accepted = [entry for entry in bodies if entry not in failures]
            self.accepted += [bodies[entry] for entry in accepted]
        failed = [{"Id": entry, **failures[entry]} for entry in bodies if failures.get(entry)]
        return {"Successful": [{"Id": entry} for entry in accepted], "Failed": failed}


def send(service: publish.PublishCall, *batches: tuple[str, ...]) -> list[int]:
    sent: list[int] = []
    publish.send_batches(service, batches, sent.append)
    return sent


def test_only_failed_entries_are_sent_again() -> None:
    service = Service({"1": THROTTLED, "2": THROTTLED}, {"2": THROTTLED})
    assert send(service, ("a", "b", "c")) == [3]
    assert service.calls == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert service.accepted == ["a", "b", "c"]


def test_an_entry_without_an_answer_is_sent_again() -> None:
    service = Service({"0": UNMENTIONED})
    send(service, ("a", "b"))
    assert service.calls == [["a", "b"], ["a"]]


@pytest.mark.parametrize(
    ("script", "message", "calls"),
    [
        pytest.param(
            [{"1": REFUSED}],
            "1 messages were refused, and would be again: InvalidParameter too long",
            1,
            id="refused",
        ),
        pytest.param(
            repeat({"0": THROTTLED}, 100),
            r"not accepted in 6 attempts \(Throttled slow down\)",
            ATTEMPTS,
            id="always throttled",
        ),
    ],
)
def test_sending_fails_with_the_reason(script: Any, message: str, calls: int) -> None:
    service = Service(*script)
    with pytest.raises(OpsError, match=message):
        send(service, ("a", "b"))
    assert len(service.calls) == calls


def test_neighbouring_batches_are_sent_concurrently() -> None:
    both = Barrier(2, timeout=5)

    def meet(bodies: Mapping[str, str]) -> dict[str, Any]:
        both.wait()  # breaks unless another thread arrives
        return {"Successful": [{"Id": entry} for entry in bodies]}

    assert send(meet, ("a",), ("a",)) == [1, 1]


SAMPLE = {
    "specversion": "1.0",
    "id": "sample-1",
    "source": "/samples",
    "type": "refund.requested",
    "data": {"refund_id": "refund", "amount": 2},
}


def consumer(name: str, *types: str) -> Any:
    return SimpleNamespace(name=name, identity=name, ingress_types=types, item_table=None)


@pytest.fixture
def deployment() -> Any:
    consumers = [consumer("orders", "order.placed"), consumer("refunds", "refund.requested")]
    return SimpleNamespace(
        consumers={each.name: each for each in consumers},
        is_ordered=lambda _: False,
        takers=lambda _: [],
        group_field=lambda _: None,
        ingress_topic=lambda _: "topic",
    )


def test_a_further_consumers_sample_is_sent_as_distinct_events_and_duplicates(
    deployment: Any, tmp_path: Path
) -> None:
    (tmp_path / "refund-requested.json").write_text(json.dumps(SAMPLE))
    (tmp_path / "malformed.json").write_text('{"type": "refund.requested", "data": 1}')
    calls: list[dict[str, Any]] = []
    sns: Any = SimpleNamespace(publish=lambda **call: calls.append(call))
    [sample] = send_samples(sns, deployment, 7, tmp_path)
    assert sample == {"type": "refund.requested", "consumers": ["refunds"], "distinct": DISTINCT}
    assert len(calls) == DISTINCT * COPIES
    events = [json.loads(call["Message"]) for call in calls]
    assert len({event["id"] for event in events}) == DISTINCT
    assert len({event["data"]["refund_id"] for event in events}) == DISTINCT
    assert {event["data"]["amount"] for event in events} == {2}
