"""Function processes that are killed, hang, or write outside the transaction."""

import pytest

from demo.quiescence import wait_until
from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute

BATCH = 10


@pytest.mark.parametrize("fault", ["die", "hang"])
def test_a_function_that_ends_in_mid_batch_counts_every_message_once(
    service: Deployment, fault: str
) -> None:
    counters = [f"{fault}-{n}" for n in range(BATCH)]
    service.send("probe", cloud_event("probe.asked", {"counter": f"{fault}-warm"}))
    service.wait_until_empty("probe")
    seen = service.processes("probe")
    service.put("controls", id=counters[5], fault=fault)
    service.send("probe", *(cloud_event("probe.asked", {"counter": c}) for c in counters))
    wait_until("a process has died", lambda: _one_has_ended(service, seen), timeout=30)
    assert _amounts(service, counters)[5] is None
    service.put("controls", id=counters[5], fault="none")
    service.wait_until_empty("probe")
    assert _amounts(service, counters) == ["1"] * BATCH


def _amounts(service: Deployment, counters: list[str]) -> list[str | None]:
    return [service.get("counters", id=counter).get("amount") for counter in counters]


def _one_has_ended(service: Deployment, seen: set[int]) -> bool:
    """Tell whether a process has ended; one that starts later may get the batch as well."""
    alive = service.processes("probe")
    seen |= alive
    return seen != alive


def test_a_handler_that_writes_past_the_transaction_is_denied_by_iam(service: Deployment) -> None:
    service.send("rogue", cloud_event("rogue.asked", {"counter": "direct"}))
    [letter] = service.dead_letters("rogue", 1)
    assert attribute(letter, "once-reason") == "retries-exhausted"
    assert attribute(letter, "once-receive-count") == "5"
    assert "AccessDenied" in attribute(letter, "once-error")
    assert "PutItem" in attribute(letter, "once-error")
    assert service.get("counters", id="direct") == {}
