"""Transactions to commit, as their handlers would have filled them, and what cancels them."""

from random import Random
from typing import Any

from once.errors import Refusal
from once.events.cloud_event import CloudEvent
from once.handlers.actions import Table
from once.handlers.transaction import Identity, Transaction
from once.settings import Settings, TableSettings
from proof.fuzz import items

SETTINGS = Settings(
    consumer="orders",
    event_types=("order.placed",),
    queue_url="queue",
    dead_letter_url="dead-letters",
    dedup_table="dedup",
    tables={"stock": TableSettings("stock", ("sku",))},
    dedup_window_seconds=45 * 24 * 60 * 60,
)
CONDITION = "ConditionalCheckFailed"
INVALID = ("ValidationError", "ItemCollectionSizeLimitExceeded")
CODES = (
    *("None", "None", "None", "None", CONDITION, CONDITION, "TransactionConflict"),
    *("ThrottlingError", "ProvisionedThroughputExceeded", *INVALID),
    *("AccessDenied", "DuplicateItem", "", "none", "Whatever"),
)
_STOCK = Table("stock")
_KINDS = ("plain", "condition", "otherwise", "read", "read and otherwise")
_COMMIT = {"once_commit": {"S": "seen"}}
_TERMS: dict[str, Any] = {"condition": "available > :zero", "values": {":zero": 0}}


class SoldOut(Refusal):
    """What a condition with `otherwise` stands for here."""


def transaction(number: int, kinds: list[str]) -> Transaction:
    """Return a transaction with one action of each kind.

    Args:
        number: tells it from its neighbours, and its items from theirs.
        kinds: `plain`, `condition`, `otherwise`, `read`, or `read and otherwise`.
    """
    identity = Identity(f"orders#event#/shop#e-{number}", items.MINE)
    event = CloudEvent(id=f"e-{number}", source="/shop", type="order.placed")
    seen = {"sku": "tea", "once_commit": "seen"}
    tx = Transaction(event, identity, tables=SETTINGS.tables, publishes=(), read=lambda _, __: seen)
    for position, kind in enumerate(kinds):
        key = {"sku": f"{number}-{position}"}
        if "read" in kind:
            tx.get(_STOCK, key)
        if kind != "read":
            tx.delete(_STOCK, key, **_terms(kind))
    return tx


def _terms(kind: str) -> dict[str, Any]:
    if kind == "plain":
        return {}
    return _TERMS | ({"otherwise": SoldOut(kind)} if "otherwise" in kind else {})


def kinds(rng: Random) -> list[str]:
    """Return the kinds of a transaction's actions."""
    return rng.choices(_KINDS, k=rng.randint(0, 3))


def reason(rng: Random, *, of_record: bool) -> dict[str, Any]:
    """Return the reason of one action, in the form of the SDK."""
    code = rng.choice(CODES)
    found: dict[str, Any] = {"Code": code} | rng.choice(({}, {"Message": "m"}))
    if code == CONDITION and rng.random() < 0.9:
        found["Item"] = _item(rng, of_record=of_record)
    return found


def _item(rng: Random, *, of_record: bool) -> dict[str, Any]:
    """What ALL_OLD hands back: a business item may look like a record as well."""
    pick = rng.random()
    if pick < (0.9 if of_record else 0.3):
        return items.stored(rng, commit="mine")
    return _COMMIT if pick < 0.95 else items.foreign(rng)
