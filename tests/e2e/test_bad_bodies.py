"""Bad bodies on the deployed service: a dead letter with its reason; other messages commit."""

from typing import Any

import pytest

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute

GOOD = '"specversion": "1.0", "id": "e", "source": "/s", "type": "probe.asked"'
MIB = 1024 * 1024

BODIES = {
    "blank": (" ", "unparseable"),
    "no JSON": ("order 12, please", "unparseable"),
    "a list": ("[1, 2]", "invalid-event"),
    "no id": ('{"specversion": "1.0", "source": "/s", "type": "probe.asked"}', "no-key"),
    "null id": ('{"specversion": "1.0", "id": null, "source": "/s", "type": "t"}', "no-key"),
    "wrong types": ("{" + GOOD + ', "data": {"counter": 7}}', "invalid-data"),
    "duplicate keys": ("{" + GOOD + ', "data": {"counter": "a", "counter": "b"}}', "unparseable"),
    "NaN": ("{" + GOOD + ', "data": {"counter": NaN}}', "unparseable"),
    "surrogate": ("{" + GOOD + ', "data": {"counter": "\\ud800"}}', "unparseable"),
    "deep": ("[" * 10_000, "unparseable"),
    "unknown type": ("{" + GOOD.replace("probe.asked", "x") + "}", "unknown-type"),
}


def counted(counter: str) -> Any:
    return cloud_event("probe.asked", {"counter": counter})


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_quarantined_and_its_neighbours_commit(
    service: Deployment, name: str
) -> None:
    body, reason = BODIES[name]
    before, after = f"before {name}", f"after {name}"
    service.send("probe", counted(before), body, counted(after))
    [letter] = service.dead_letters("probe", 1)
    service.wait_until_empty("probe")
    assert letter["Body"] == body
    assert attribute(letter, "once-reason") == reason
    assert attribute(letter, "once-receive-count") == "1"
    for counter in (before, after):
        assert service.get("counters", id=counter)["amount"] == "1"


def test_a_body_as_large_as_sqs_takes_is_quarantined_whole(service: Deployment) -> None:
    service.send("probe", "x" * MIB)
    [letter] = service.dead_letters("probe", 1)
    assert attribute(letter, "once-reason") == "too-large"
    assert "once-original-gzip" in letter["MessageAttributes"]
    service.send("probe", counted("after a large one"))
    service.wait_until_empty("probe")
    assert service.get("counters", id="after a large one")["amount"] == "1"
