"""Subjects of sound handlers, and of handlers with one planted bug, with its findings.

Some are controls of the kit or approaches of the lab; `sound.py` and `planted.py` have the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.subjects import APPROACHES
from redelivery import Answer, Fault, Kind, Subject, Table
from redelivery.self_check import CONTROLS

HERE = Path(__file__).parent
CONTROL = {control.name: control.subject() for control in CONTROLS}


def subject(
    handler: str,
    events: list[Any],
    *tables: Table,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Subject:
    """A subject of this folder; each table's name is in the variable of that name."""
    environment = {table.name.upper(): table.name for table in tables} | dict(env or {})
    return Subject(
        handler=handler, events=events, root=HERE, environment=environment, tables=tables, **more
    )


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A handler with one bug.

    Attributes:
        subject: the handler, with what it needs.
        found_by: the faults that must find the bug, with the kind of difference.
        call: the method that the handler calls where the difference is made; empty if no call is
            the cause.
        harmless: faults that the handler survives.
    """

    subject: Subject
    found_by: Mapping[Fault, Kind]
    call: str
    harmless: tuple[Fault, ...]


CHARGED: dict[str, Any] = {
    "env": {"PAYMENTS_API": "https://payments.test"},
    "answers": [Answer("https://payments.test/charges", body={"id": "ch-1"})],
}
ORDERS = [
    {"order_id": "o-1", "amount": 4200, "card": "card-1"},
    {"order_id": "o-2", "amount": 600, "card": "card-2"},
]

FRESH_CHARGE_KEY = PlantedBug(
    subject("planted.fresh_charge_key", ORDERS, Table("payments", "order_id"), **CHARGED),
    dict.fromkeys((Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.TIMED_OUT), Kind.DOUBLED),
    "post",
    (Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.AFTER_EXPIRY),
)
PLANTED = (
    FRESH_CHARGE_KEY,
    PlantedBug(
        APPROACHES["claim_first"].subject({}),
        dict.fromkeys(
            (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.DEADLINE), Kind.LOST
        ),
        "put_item",
        (Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.IN_PARALLEL, Fault.POISON),
    ),
    PlantedBug(
        subject(
            "planted.lock_without_lease",
            [
                {"renewal_id": "r-1", "until": "2027-01-01"},
                {"renewal_id": "r-2", "until": "2027-06-01"},
            ],
            Table("renewals", "renewal_id"),
            Table("locks", "renewal_id", compared=False),
            env={"QUEUE_URL": "{source}"},
        ),
        {Fault.DIES_BEFORE: Kind.STUCK, Fault.DIES_AFTER: Kind.STUCK},
        "",
        (Fault.DELIVERED_AGAIN, Fault.POISON),
    ),
    PlantedBug(
        subject(
            "planted.counter_beside_put",
            [
                {"user_id": "u-1", "email": "ada@example.org", "day": "2026-03-01"},
                {"user_id": "u-2", "email": "bob@example.org", "day": "2026-03-02"},
            ],
            Table("users", "user_id"),
            Table("statistics", "day"),
        ),
        {Fault.ANSWER_LOST_RETRIED: Kind.DOUBLED, Fault.DIES_AFTER: Kind.LOST},
        "update_item",
        (Fault.DELIVERED_AGAIN, Fault.REDRIVEN, Fault.TWICE_IN_BATCH),
    ),
    PlantedBug(
        CONTROL["ack_before_write"],
        dict.fromkeys((Fault.DIES_BEFORE, Fault.DIES_AFTER), Kind.ACKNOWLEDGED_EARLY),
        "put_item",
        (Fault.SENT_AGAIN, Fault.REDRIVEN),
    ),
    PlantedBug(
        subject(
            "planted.swallowed_errors",
            [
                {"entry_id": "e-1", "user": "ada", "action": "login"},
                {"entry_id": "e-2", "user": "bob", "action": "logout"},
            ],
            Table("entries", "entry_id"),
        ),
        {Fault.REFUSED: Kind.LOST, Fault.THROTTLED: Kind.LOST},
        "put_item",
        (Fault.DIES_BEFORE, Fault.IN_PARALLEL, Fault.POISON, Fault.NEIGHBOUR_FAILS),
    ),
    PlantedBug(
        subject(
            "planted.conflict_is_duplicate",
            [
                {"sale_id": "s-1", "sku": "tea", "quantity": 2},
                {"sale_id": "s-2", "sku": "cup", "quantity": 1},
            ],
            Table("sales", "sale_id"),
            Table("stock", "sku", items=[{"sku": s, "available": 50} for s in ("tea", "cup")]),
        ),
        {Fault.CONFLICTED: Kind.LOST},
        "transact_write_items",
        (Fault.DIES_AFTER, Fault.REFUSED, Fault.IN_PARALLEL, Fault.SENT_AGAIN),
    ),
    PlantedBug(
        CONTROL["message_id_as_key"],
        dict.fromkeys((Fault.SENT_AGAIN, Fault.REDRIVEN, Fault.IN_PARALLEL), Kind.DOUBLED),
        "transact_write_items",
        (Fault.DELIVERED_AGAIN, Fault.DIES_AFTER, Fault.TWICE_IN_BATCH),
    ),
    PlantedBug(
        subject(
            "planted.look_up_first",
            [
                {"movement_id": "m-1", "sku": "tea", "quantity": 4},
                {"movement_id": "m-2", "sku": "cup", "quantity": 2},
            ],
            Table("movements", "movement_id"),
            Table("stock", "sku"),
        ),
        {Fault.IN_PARALLEL: Kind.DOUBLED, Fault.TWICE_IN_BATCH: Kind.DOUBLED},
        "transact_write_items",
        (Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.DIES_AFTER),
    ),
    PlantedBug(
        APPROACHES["provider_key"].subject({}),
        {Fault.AFTER_EXPIRY: Kind.DOUBLED},
        "post",
        (Fault.REDRIVEN, Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.SENT_AGAIN),
    ),
    PlantedBug(
        subject(
            "planted.announce_first",
            [{"account_id": "a-1", "owner": "Ada"}, {"account_id": "a-2", "owner": "Bob"}],
            Table("accounts", "account_id"),
            env={"TOPIC_ARN": "{topic:accounts-opened}"},
            topics=["accounts-opened"],
        ),
        {Fault.DELIVERED_AGAIN: Kind.DOUBLED, Fault.BATCH_ANSWER_LOST: Kind.DOUBLED},
        "publish",
        (Fault.POISON, Fault.NEIGHBOUR_FAILS),
    ),
    PlantedBug(
        subject(
            "planted.wrong_identifiers",
            [
                {"meter_id": "m-1", "read_on": "2026-03-01", "kwh": 120},
                {"meter_id": "m-2", "read_on": "2026-03-01", "kwh": 48},
            ],
            Table("readings", "meter_id", "read_on"),
        ),
        {Fault.NEIGHBOUR_FAILS: Kind.DEAD_LETTERED, Fault.POISON: Kind.DEAD_LETTERED},
        "",
        (Fault.DIES_AFTER, Fault.SENT_AGAIN, Fault.IN_PARALLEL),
    ),
    PlantedBug(
        subject(
            "planted.first_record",
            [{"customer_id": "c-1", "address": "Elm Street 3"}],
            Table("customers", "customer_id"),
        ),
        {Fault.BATCH: Kind.LOST},
        "put_item",
        (Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN),
    ),
    PlantedBug(
        subject(
            "planted.no_fingerprint",
            [{"card_id": "g-1", "customer_id": "c-1", "amount": 25}],
            Table("cards", "card_id"),
            Table("customers", "customer_id"),
            key="card_id",
        ),
        {Fault.OTHER_CONTENT: Kind.LOST},
        "",
        (Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.SENT_AGAIN, Fault.CONFLICTED),
    ),
    PlantedBug(
        subject(
            "planted.background_thread",
            [{"survey_id": "s-1", "score": 7}, {"survey_id": "s-2", "score": 9}],
            Table("results", "survey_id"),
        ),
        {Fault.BATCH: Kind.ACKNOWLEDGED_EARLY},
        "put_item",
        (),
    ),
)

THREAD_POOL = subject(
    "sound.thread_pool",
    [
        {"deposit_id": "d-1", "account_id": "a-1", "amount": 100},
        {"deposit_id": "d-2", "account_id": "a-2", "amount": 35},
    ],
    Table("deposits", "deposit_id"),
    Table("balances", "account_id"),
)
UPSERT = subject(
    "sound.upsert",
    [
        {"sku": "tea", "name": "Green tea", "price": 450},
        {"sku": "cup", "name": "White cup", "price": 900},
    ],
    Table("articles", "sku"),
    key="sku",
    # Another message on the same article is a newer state of it, and replaces it.
    skip=["other-content"],
)
ANNOUNCE_AFTER = subject(
    "sound.announce_after",
    [{"listing_id": "l-1", "street": "Elm Street 3", "price": 300_000}],
    Table("listings", "listing_id"),
    env={"TOPIC_ARN": "{topic:listed}"},
    topics=["listed"],
    key="listing_id",
    repeatable=["listed"],
)
_ONCE = APPROACHES["once"].subject({})
PYDANTIC = replace(_ONCE, handler="tests.conformance.handlers.modelled.lambda_handler")
SOUND = (
    CONTROL["conditional_put"],
    _ONCE,
    PYDANTIC,
    *(THREAD_POOL, UPSERT, ANNOUNCE_AFTER),
    subject(
        "sound.fingerprint",
        [{"vote_id": "v-1", "poll": "colour", "choice": "blue"}],
        Table("votes", "vote_id", ttl="expires_at"),
        Table("polls", "poll", "choice"),
        key="vote_id",
    ),
    subject(
        "sound.stable_charge_key",
        ORDERS,
        Table("payments", "order_id"),
        key="order_id",
        **CHARGED,
    ),
)
