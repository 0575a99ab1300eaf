"""Nothing counts as sent until its own entry of the answer says so."""

from collections.abc import Mapping
from itertools import repeat
from threading import Barrier, Lock
from typing import Any

import pytest

from demo.traffic import publisher as publish
from once.ops.aws.batch_calls import ATTEMPTS
from once.ops.errors import OpsError

ACCEPTED: dict[str, Any] = {}


class Service:
    """Answers calls as the script says, and remembers what it accepted; then accepts everything.

    A step of the script maps entry ids to failures; the other entries are accepted.
    """

    def __init__(self, *script: Mapping[str, Any]) -> None:
        self._script = iter([*script])
        self.calls: list[list[str]] = []
        self.accepted: list[str] = []
        self._lock = Lock()

    def __call__(self, bodies: Mapping[str, str]) -> dict[str, Any]:
        with self._lock:
            failures = next(self._script, ACCEPTED)
            self.calls.append(list(bodies.values()))
            sound = [entry for entry in bodies if entry not in failures]
            self.accepted += [bodies[entry] for entry in sound]
        failed = [{"Id": entry, **failures[entry]} for entry in bodies if failures.get(entry)]
        return {"Successful": [{"Id": entry} for entry in sound], "Failed": failed}


THROTTLED = {"Code": "Throttled", "Message": "slow down", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "Message": "too long", "SenderFault": True}
UNMENTIONED: dict[str, Any] = {}


def send(service: publish.PublishCall, *batches: tuple[str, ...]) -> list[int]:
    sent: list[int] = []
    publish.send_batches(service, batches, sent.append)
    return sent


def test_failed_entries_are_sent_again_and_no_others() -> None:
    service = Service({"1": THROTTLED, "2": THROTTLED}, {"2": THROTTLED})
    assert send(service, ("a", "b", "c")) == [3]
    assert service.calls == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert service.accepted == ["a", "b", "c"]


def test_entry_that_the_answer_does_not_mention_is_sent_again() -> None:
    service = Service({"0": UNMENTIONED})
    send(service, ("a", "b"))
    assert service.calls == [["a", "b"], ["a"]]


def test_equal_bodies_of_one_batch_are_all_sent() -> None:
    service = Service({"0": THROTTLED})
    send(service, ("a", "a"))
    assert service.accepted == ["a", "a"]


def test_refused_entry_ends_the_sending_with_the_reason() -> None:
    service = Service({"1": REFUSED})
    with pytest.raises(
        OpsError, match="1 messages were refused, and would be again: InvalidParameter too long"
    ):
        send(service, ("a", "b"))
    assert len(service.calls) == 1


def test_entry_that_always_fails_ends_the_sending_with_the_reason() -> None:
    service = Service(*repeat({"0": THROTTLED}, 100))
    with pytest.raises(OpsError, match=r"not accepted in 6 attempts \(Throttled slow down\)"):
        send(service, ("a",))
    assert len(service.calls) == ATTEMPTS


def test_neighbouring_batches_are_under_way_at_the_same_time() -> None:
    both = Barrier(2, timeout=5)

    def meet(bodies: Mapping[str, str]) -> dict[str, Any]:
        both.wait()  # breaks unless another thread comes here too
        return {"Successful": [{"Id": entry} for entry in bodies]}

    assert send(meet, ("a",), ("a",)) == [1, 1]
