"""Items that are not as the handler read them: told apart by the version in the old item."""

from typing import Any

import pytest

from once.commit.result import (
    STALE,
    CommitOutcome,
)
from once.schema import COMMIT_ATTRIBUTE
from tests.once.commit.test_cancellation import (
    FAILED,
    NONE,
    reason,
    verdict,
)
from tests.once.support import COUNTERS, SoldOut, offline

SEEN = {"name": "seen", COMMIT_ATTRIBUTE: "first"}


def item(commit: str | None) -> dict[str, Any]:
    return {"name": {"S": "seen"}} | ({COMMIT_ATTRIBUTE: {"S": commit}} if commit else {})


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (SEEN, item("second")),
        (SEEN, item(None)),
        (SEEN, None),
        ({"name": "seen"}, item("first")),
        ({"name": "seen"}, None),
        (None, item("first")),
        (None, item(None)),
    ],
)
def test_an_item_that_is_not_as_it_was_read_is_stale(read: Any, found: Any) -> None:
    tx = offline(item=read)
    tx.get(COUNTERS, {"name": "seen"})
    assert verdict(tx, NONE, reason(FAILED, found)) == STALE


@pytest.mark.parametrize(
    ("read", "found"), [(SEEN, item("first")), ({"name": "seen"}, item(None)), (None, None)]
)
@pytest.mark.parametrize("refusal", [SoldOut(), None])
def test_an_item_as_it_was_read_failed_the_handlers_own_condition(
    read: Any, found: Any, refusal: SoldOut | None
) -> None:
    tx = offline(item=read)
    tx.get(COUNTERS, {"name": "seen"})
    terms: Any = {"otherwise": refusal} if refusal else {}
    tx.put(COUNTERS, {"name": "seen"}, condition="amount > limit", **terms)
    expected = CommitOutcome.REFUSED if refusal else CommitOutcome.FAILED
    assert verdict(tx, NONE, reason(FAILED, found)).outcome is expected


def test_a_stale_item_comes_before_a_refusal_on_another() -> None:
    tx = offline(item=SEEN)
    tx.get(COUNTERS, {"name": "seen"})
    tx.delete(COUNTERS, {"name": "other"}, condition="attribute_exists(x)", otherwise=SoldOut())
    assert verdict(tx, NONE, reason(FAILED), reason(FAILED, item("second"))) == STALE
