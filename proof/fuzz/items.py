"""DynamoDB items, transactions, and the reasons for which transactions are cancelled."""

import json
from hashlib import sha256
from random import Random
from typing import Any

from once.commit.dedup_record import record_put
from once.effects.ledger import Intent
from once.errors import Refusal
from once.events.cloud_event import CloudEvent
from once.names import Record, Standing
from once.settings import TableSettings
from once.transaction import Identity, Table, Transaction
from proof.fuzz import values
from proof.fuzz.aws import settings
from proof.fuzz.json_text import nested

Item = dict[str, Any]

OWN, OTHER = "f" * 64, "0" * 64
"""Fingerprints: of the transaction under test, and of another event."""
OWN_COMMIT = "own"
CONDITION = "ConditionalCheckFailed"
INVALID = ("ValidationError", "ItemCollectionSizeLimitExceeded")
CODES = (
    *("None", "None", "None", "None", CONDITION, CONDITION, "TransactionConflict"),
    *("ThrottlingError", "ProvisionedThroughputExceeded", *INVALID),
    *("AccessDenied", "DuplicateItem", "", "none", "Unknown"),
)
SETTINGS = settings("orders", tables={"stock": TableSettings("stock", ("sku",))})
_NUMBERS = ("0", "1", "-1", "1700000000000", "1.5", "1E+20", "9" * 38)
_STOCK = Table("stock")
_ACTIONS = ("plain", "condition", "otherwise", "read", "read and otherwise")


def attribute(rng: Random, level: int = 0) -> dict[str, Any]:
    """Return any value in DynamoDB's JSON form."""
    if level < 2 and rng.random() < 0.33:
        inner = attribute(rng, level + 1)
        return rng.choice(({"L": [inner]}, {"M": {values.text(rng): inner}}))
    text, number = {"S": values.text(rng)}, {"N": rng.choice(_NUMBERS)}
    return rng.choice((text, number, {"NULL": True}, {"BOOL": True}, {"SS": ["a"]}, {"NS": ["1"]}))


def item(rng: Random, *, number: int = 0, commit: str = "another") -> Item:
    """Return a dedup record, rarely any other item."""
    if rng.random() < 0.9:
        return dedup_record(rng, number=number, commit=commit)
    return {values.text(rng) or "x": attribute(rng) for _ in range(rng.randint(0, 3))}


def dedup_record(rng: Random, *, number: int = 0, commit: str = "another") -> Item:
    """Return a dedup record, done or pending; one in three has an attribute missing or wrong."""
    tx = transaction(number, [], fingerprint=rng.choice((OWN, OTHER)))
    tx.commit_id = rng.choice((commit, "another", "another"))
    if rng.random() < 0.33:
        tx.intent = Intent(
            effect="charge",
            provider_key="once-0-charge-1",
            request=b"{}",
            key_expires_at=rng.choice((None, 9_999_999_999)),
            owner="owner",
            lease_until=rng.choice((1, 9_999_999_999_999)),
            standing=rng.choice(list(Standing)),
        )
    record: Item = dict(record_put(tx, SETTINGS, rng.choice((1, 9_999_999_999)))["Put"]["Item"])
    if rng.random() < 0.33:
        name = rng.choice([name for name in record if name != Record.PK])
        del record[name]
        record |= rng.choice(({}, {name: attribute(rng)}))
    return record


def outbox(rng: Random, pk: str) -> dict[str, Any]:
    """Return an outbox: most are as the library writes them, others are changed or forged."""
    root = sha256(pk.encode()).hexdigest()
    events: Any = [_event(rng, f"{root}.{position}") for position in range(rng.randint(0, 3))]
    pick = rng.random()
    if pick < 0.1:
        return attribute(rng)
    tree = values.changed(rng, events) if pick < 0.4 else events
    text = json.dumps(tree, separators=(",", ":"))
    return {"S": nested(rng, text) if pick > 0.97 else text}


def _event(rng: Random, event_id: str) -> dict[str, Any]:
    head = {"id": event_id, "source": "/once/orders", "type": "order.stored"}
    forged = {rng.choice(list(head)): "forged"} if rng.random() < 0.1 else {}
    return head | forged | {"data": values.value(rng)}


def transaction(number: int, actions: list[str], fingerprint: str = OWN) -> Transaction:
    """Return a transaction with actions of these kinds; its number makes its items distinct."""
    event = CloudEvent(id=f"e-{number}", source="/shop", type="order.placed")
    identity = Identity(f"orders#event#/shop#e-{number}", fingerprint)
    seen = {"sku": "tea", "once_commit": "seen"}
    tx = Transaction(event, identity, tables=SETTINGS.tables, publishes=(), read=lambda _, __: seen)
    for position, action in enumerate(actions):
        key = {"sku": f"{number}-{position}"}
        terms: Any = {"condition": "available > :zero", "values": {":zero": 0}}
        if "otherwise" in action:
            terms["otherwise"] = Refusal("sold out")
        if "read" in action:
            tx.get(_STOCK, key)
        if action != "read":
            tx.delete(_STOCK, key, **({} if action == "plain" else terms))
    tx.commit_id = OWN_COMMIT
    return tx


def actions(rng: Random) -> list[str]:
    """Return up to three kinds of action for a transaction."""
    return rng.choices(_ACTIONS, k=rng.randint(0, 3))


def reasons(rng: Random, actions: list[str]) -> list[Any]:
    """Return cancellation reasons for the dedup record and these actions, as the SDK has them."""
    return [_reason(rng, items=1), *(_reason(rng, items=3) for _ in actions)]


def _reason(rng: Random, *, items: int) -> dict[str, Any]:
    """Return one reason; the item that it shows is a dedup record in one of `items` cases."""
    reason: dict[str, Any] = {"Code": rng.choice(CODES)} | rng.choice(({}, {"Message": "m"}))
    if reason["Code"] == CONDITION and rng.random() < 0.9:
        others = [{"once_commit": {"S": "seen"}}] * (items - 1)
        reason["Item"] = rng.choice([item(rng, commit=OWN_COMMIT), *others])
    return reason
