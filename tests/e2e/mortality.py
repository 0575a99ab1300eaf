"""Messages that end or hang their function, among messages that do not."""

from once.testing import cloud_event
from tests.e2e.deployment import Deployment

ENDING = ["fatal-0", "die-0", "hang-0"]
"""Counters whose events end or hang the function in every attempt."""
HEALTHY = [*(f"healthy-{n}" for n in range(52)), "die-once", "hang-once"]


def send_mortals(service: Deployment) -> None:
    """Send all messages, the failing ones spread evenly."""
    service.shorten_visibility("mortal")
    mixed, step = HEALTHY.copy(), len(HEALTHY) // len(ENDING)
    for position, name in enumerate(ENDING):
        mixed.insert(position * (step + 1), name)
    events = [cloud_event("mortal.asked", {"counter": name}) for name in mixed]
    for start in range(0, len(events), 10):
        service.send("mortal", *events[start : start + 10])
