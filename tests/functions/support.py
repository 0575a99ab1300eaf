"""Assertions on the events that a consumer of the shop published."""

from typing import Any

from once.testing import FakeAws


def published(aws: FakeAws) -> list[tuple[str, str, Any]]:
    """Return type, subject and data of every event in the outboxes."""
    return [(event["type"], event["subject"], event["data"]) for event in aws.published()]
