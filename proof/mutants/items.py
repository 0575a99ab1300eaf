"""Broken item dedup: each must be caught by the runs of `proof.item_dedup`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from once.batch.message import MessageSteps
from once.commit import item_dedup
from once.commit.committer import CommitRequest, Committer
from once.commit.dedup_record import StoredRecord
from once.commit.item_dedup import ItemCommitter, item_record_name
from once.commit.result import COMMITTED, CommitResult, classify, classify_record
from once.transaction import Transaction

_ITEM_DEDUP = "once.commit.item_dedup"
_NO_REASON = {"Code": "None"}


def _same_content(transaction: Transaction, stored: StoredRecord) -> CommitResult:
    same = replace(stored, fingerprint=transaction.identity.fingerprint)
    return classify_record(transaction, same)


@contextmanager
def _conflict_as_duplicate() -> Iterator[None]:
    with (
        patch(f"{_ITEM_DEDUP}.classify_record", _same_content),
        patch("once.commit.committer.classify_record", _same_content),
    ):
        yield


@contextmanager
def _duplicate_as_failure() -> Iterator[None]:
    # The look-up of often received messages would acknowledge the duplicate at its third receive.
    with (
        patch.object(ItemCommitter, "_classify", _handlers_condition),
        patch.object(MessageSteps, "look_up", lambda *_: None),
    ):
        yield


def _handlers_condition(_: ItemCommitter, request: CommitRequest, reasons: Any) -> Any:
    return classify(request.transaction, request.actions.values(), [_NO_REASON, *reasons])


def _no_condition(write: dict[str, Any], *_: Any) -> None:
    write.pop("ConditionExpression", None)


def _condition_of_updates_only(write: dict[str, Any], action: Any, *more: Any) -> None:
    (_no_condition if action.kind == "Put" else _add_condition)(write, action, *more)


_add_condition = item_dedup._add_condition


def _without_the_others(item: Any, _: object, name: str, record: Any) -> Any:
    own = {key: value for key, value in item.items() if not key.startswith("once#")}
    return {**own, name: record}


ITEM_MUTANTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "no condition on the record": lambda: patch(
        f"{_ITEM_DEDUP}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "a plain put without a condition": lambda: patch(
        f"{_ITEM_DEDUP}._add_condition", _condition_of_updates_only
    ),
    "an expiry without a margin for clocks": lambda: patch(
        "once.commit.dedup_record.CLOCK_MARGIN_SECONDS", 0
    ),
    "a conflict is a duplicate": _conflict_as_duplicate,
    "no answer is done": lambda: patch.object(
        Committer, "_unanswered", lambda _, requests: [COMMITTED] * len(requests)
    ),
    "a duplicate is the handler's condition": _duplicate_as_failure,
    "one record for all event types": lambda: patch(
        f"{_ITEM_DEDUP}.item_record_name", lambda consumer, _: item_record_name(consumer, "any")
    ),
    "a put erases the records of others": lambda: patch(
        f"{_ITEM_DEDUP}._with_record", _without_the_others
    ),
}
