"""Subjects of sound handlers, and of handlers with one planted bug, with its findings.

Some are controls of the kit or approaches of the lab; `sound.py` and `planted.py` have the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.subjects import APPROACHES
from redelivery import Answer, Fault, Kind, Subject, Table
from redelivery.self_check import CONTROLS

HERE = Path(__file__).parent
CONTROL = {control.name: control for control in CONTROLS}


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


CLAIM_FIRST = PlantedBug(
    APPROACHES["claim_first"].subject({}),
    found_by=dict.fromkeys(
        (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.ANSWER_LOST, Fault.DEADLINE), Kind.LOST
    ),
    call="put_item",
    harmless=(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.IN_PARALLEL, Fault.POISON),
)

LOCK_WITHOUT_LEASE = PlantedBug(
    Subject(
        handler="planted.lock_without_lease",
        events=[
            {"renewal_id": "r-1", "until": "2027-01-01"},
            {"renewal_id": "r-2", "until": "2027-06-01"},
        ],
        root=HERE,
        environment={"RENEWALS": "renewals", "LOCKS": "locks", "QUEUE_URL": "{source}"},
        tables=[Table("renewals", "renewal_id"), Table("locks", "renewal_id", compared=False)],
    ),
    found_by={Fault.DIES_BEFORE: Kind.STUCK, Fault.DIES_AFTER: Kind.STUCK},
    call="",
    harmless=(Fault.DELIVERED_AGAIN, Fault.POISON),
)

COUNTER_BESIDE_PUT = PlantedBug(
    Subject(
        handler="planted.counter_beside_put",
        events=[
            {"user_id": "u-1", "email": "ada@example.org", "day": "2026-03-01"},
            {"user_id": "u-2", "email": "bob@example.org", "day": "2026-03-02"},
        ],
        root=HERE,
        environment={"USERS": "users", "STATISTICS": "statistics"},
        tables=[Table("users", "user_id"), Table("statistics", "day")],
    ),
    found_by={Fault.ANSWER_LOST_RETRIED: Kind.DOUBLED, Fault.DIES_AFTER: Kind.LOST},
    call="update_item",
    harmless=(Fault.DELIVERED_AGAIN, Fault.REDRIVEN, Fault.TWICE_IN_BATCH),
)

DELETE_FIRST = PlantedBug(
    CONTROL["ack_before_write"].subject,
    found_by=dict.fromkeys((Fault.DIES_BEFORE, Fault.DIES_AFTER), Kind.ACKNOWLEDGED_EARLY),
    call="put_item",
    harmless=(Fault.SENT_AGAIN, Fault.REDRIVEN),
)

SWALLOWED_ERRORS = PlantedBug(
    Subject(
        handler="planted.swallowed_errors",
        events=[
            {"entry_id": "e-1", "user": "ada", "action": "login"},
            {"entry_id": "e-2", "user": "bob", "action": "logout"},
        ],
        root=HERE,
        environment={"ENTRIES": "entries"},
        tables=[Table("entries", "entry_id")],
    ),
    found_by={Fault.REFUSED: Kind.LOST, Fault.THROTTLED: Kind.LOST},
    call="put_item",
    harmless=(Fault.DIES_BEFORE, Fault.IN_PARALLEL, Fault.POISON, Fault.NEIGHBOUR_FAILS),
)

CONFLICT_IS_DUPLICATE = PlantedBug(
    Subject(
        handler="planted.conflict_is_duplicate",
        events=[
            {"sale_id": "s-1", "sku": "tea", "quantity": 2},
            {"sale_id": "s-2", "sku": "cup", "quantity": 1},
        ],
        root=HERE,
        environment={"SALES": "sales", "STOCK": "stock"},
        tables=[
            Table("sales", "sale_id"),
            Table("stock", "sku", items=[{"sku": s, "available": 50} for s in ("tea", "cup")]),
        ],
    ),
    found_by={Fault.CONFLICTED: Kind.LOST},
    call="transact_write_items",
    harmless=(Fault.DIES_AFTER, Fault.REFUSED, Fault.IN_PARALLEL, Fault.SENT_AGAIN),
)

FRESH_CHARGE_KEY = PlantedBug(
    Subject(
        handler="planted.fresh_charge_key",
        events=[
            {"order_id": "o-1", "amount": 4200, "card": "card-1"},
            {"order_id": "o-2", "amount": 600, "card": "card-2"},
        ],
        root=HERE,
        environment={"PAYMENTS": "payments", "PAYMENTS_API": "https://payments.test"},
        tables=[Table("payments", "order_id")],
        answers=[Answer("https://payments.test/charges", body={"id": "ch-1"})],
    ),
    found_by={
        Fault.DIES_AFTER: Kind.DOUBLED,
        Fault.ANSWER_LOST: Kind.DOUBLED,
        Fault.TIMED_OUT: Kind.DOUBLED,
    },
    call="post",
    harmless=(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.AFTER_EXPIRY),
)

MESSAGE_ID_KEY = PlantedBug(
    CONTROL["message_id_as_key"].subject,
    found_by=dict.fromkeys((Fault.SENT_AGAIN, Fault.REDRIVEN, Fault.IN_PARALLEL), Kind.DOUBLED),
    call="transact_write_items",
    harmless=(Fault.DELIVERED_AGAIN, Fault.DIES_AFTER, Fault.TWICE_IN_BATCH),
)

LOOK_UP_FIRST = PlantedBug(
    Subject(
        handler="planted.look_up_first",
        events=[
            {"movement_id": "m-1", "sku": "tea", "quantity": 4},
            {"movement_id": "m-2", "sku": "cup", "quantity": 2},
        ],
        root=HERE,
        environment={"MOVEMENTS": "movements", "STOCK": "stock"},
        tables=[Table("movements", "movement_id"), Table("stock", "sku")],
    ),
    found_by={Fault.IN_PARALLEL: Kind.DOUBLED, Fault.TWICE_IN_BATCH: Kind.DOUBLED},
    call="transact_write_items",
    harmless=(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.DIES_AFTER),
)

SHORT_MEMORY = PlantedBug(
    APPROACHES["provider_key"].subject({}),
    found_by={Fault.AFTER_EXPIRY: Kind.DOUBLED},
    call="post",
    harmless=(Fault.REDRIVEN, Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.SENT_AGAIN),
)

ANNOUNCE_FIRST = PlantedBug(
    Subject(
        handler="planted.announce_first",
        events=[{"account_id": "a-1", "owner": "Ada"}, {"account_id": "a-2", "owner": "Bob"}],
        root=HERE,
        environment={"ACCOUNTS": "accounts", "TOPIC_ARN": "{topic:accounts-opened}"},
        tables=[Table("accounts", "account_id")],
        topics=["accounts-opened"],
    ),
    found_by={Fault.DELIVERED_AGAIN: Kind.DOUBLED, Fault.BATCH_ANSWER_LOST: Kind.DOUBLED},
    call="publish",
    harmless=(Fault.POISON, Fault.NEIGHBOUR_FAILS),
)

WRONG_IDENTIFIERS = PlantedBug(
    Subject(
        handler="planted.wrong_identifiers",
        events=[
            {"meter_id": "m-1", "read_on": "2026-03-01", "kwh": 120},
            {"meter_id": "m-2", "read_on": "2026-03-01", "kwh": 48},
        ],
        root=HERE,
        environment={"READINGS": "readings"},
        tables=[Table("readings", "meter_id", "read_on")],
    ),
    found_by={Fault.NEIGHBOUR_FAILS: Kind.DEAD_LETTERED, Fault.POISON: Kind.DEAD_LETTERED},
    call="",
    harmless=(Fault.DIES_AFTER, Fault.SENT_AGAIN, Fault.IN_PARALLEL),
)

FIRST_RECORD = PlantedBug(
    Subject(
        handler="planted.first_record",
        events=[{"customer_id": "c-1", "address": "Elm Street 3"}],
        root=HERE,
        environment={"CUSTOMERS": "customers"},
        tables=[Table("customers", "customer_id")],
    ),
    found_by={Fault.BATCH: Kind.LOST},
    call="put_item",
    harmless=(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN),
)

NO_FINGERPRINT = PlantedBug(
    Subject(
        handler="planted.no_fingerprint",
        events=[{"card_id": "g-1", "customer_id": "c-1", "amount": 25}],
        root=HERE,
        environment={"CARDS": "cards", "CUSTOMERS": "customers"},
        tables=[Table("cards", "card_id"), Table("customers", "customer_id")],
        key="card_id",
    ),
    found_by={Fault.OTHER_CONTENT: Kind.LOST},
    call="",
    harmless=(Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.SENT_AGAIN, Fault.CONFLICTED),
)

BACKGROUND_THREAD = PlantedBug(
    Subject(
        handler="planted.background_thread",
        events=[{"survey_id": "s-1", "score": 7}, {"survey_id": "s-2", "score": 9}],
        root=HERE,
        environment={"RESULTS": "results"},
        tables=[Table("results", "survey_id")],
    ),
    found_by={Fault.BATCH: Kind.ACKNOWLEDGED_EARLY},
    call="put_item",
    harmless=(),
)

PLANTED = tuple(bug for bug in [*globals().values()] if isinstance(bug, PlantedBug))


# Sound handlers: no fault makes a difference to them.


[CONDITIONAL_PUT] = (control.subject for control in CONTROLS if control.kind is None)
ONCE = APPROACHES["once"].subject({})

THREAD_POOL = Subject(
    handler="sound.thread_pool",
    events=[
        {"deposit_id": "d-1", "account_id": "a-1", "amount": 100},
        {"deposit_id": "d-2", "account_id": "a-2", "amount": 35},
    ],
    root=HERE,
    environment={"DEPOSITS": "deposits", "BALANCES": "balances"},
    tables=[Table("deposits", "deposit_id"), Table("balances", "account_id")],
)

FINGERPRINT = Subject(
    handler="sound.fingerprint",
    events=[{"vote_id": "v-1", "poll": "colour", "choice": "blue"}],
    root=HERE,
    environment={"VOTES": "votes", "POLLS": "polls"},
    tables=[Table("votes", "vote_id", ttl="expires_at"), Table("polls", "poll", "choice")],
    key="vote_id",
)

STABLE_CHARGE_KEY = Subject(
    handler="sound.stable_charge_key",
    events=[
        {"order_id": "o-1", "amount": 4200, "card": "card-1"},
        {"order_id": "o-2", "amount": 600, "card": "card-2"},
    ],
    root=HERE,
    environment={"PAYMENTS": "payments", "PAYMENTS_API": "https://payments.test"},
    tables=[Table("payments", "order_id")],
    answers=[Answer("https://payments.test/charges", body={"id": "ch-1"})],
    key="order_id",
)

UPSERT = Subject(
    handler="sound.upsert",
    events=[
        {"sku": "tea", "name": "Green tea", "price": 450},
        {"sku": "cup", "name": "White cup", "price": 900},
    ],
    root=HERE,
    environment={"ARTICLES": "articles"},
    tables=[Table("articles", "sku")],
    key="sku",
    # Another message on the same article is a newer state of it, and replaces it.
    skip=["other-content"],
)


ANNOUNCE_AFTER = Subject(
    handler="sound.announce_after",
    events=[{"listing_id": "l-1", "street": "Elm Street 3", "price": 300_000}],
    root=HERE,
    environment={"LISTINGS": "listings", "TOPIC_ARN": "{topic:listed}"},
    tables=[Table("listings", "listing_id")],
    topics=["listed"],
    key="listing_id",
    repeatable=["listed"],
)


SOUND = (
    *(CONDITIONAL_PUT, ONCE, THREAD_POOL, FINGERPRINT, STABLE_CHARGE_KEY, UPSERT),
    ANNOUNCE_AFTER,
)
