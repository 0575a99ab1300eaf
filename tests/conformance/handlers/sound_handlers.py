"""Sound handlers: no fault makes a difference to them.

Two are a control of the kit and an approach of the lab; `sound/` has the others.
"""

from pathlib import Path

from lab.subjects import APPROACHES
from redelivery import Answer, Subject, Table
from redelivery.self_check import CONTROLS

HERE = Path(__file__).parent / "sound"
[CONDITIONAL_PUT] = (control.subject for control in CONTROLS if control.kind is None)
ONCE = APPROACHES["once"].subject({})

THREAD_POOL = Subject(
    handler="thread_pool.handler",
    events=[
        {"deposit_id": "d-1", "account_id": "a-1", "amount": 100},
        {"deposit_id": "d-2", "account_id": "a-2", "amount": 35},
    ],
    root=HERE,
    environment={"DEPOSITS": "deposits", "BALANCES": "balances"},
    tables=[Table("deposits", "deposit_id"), Table("balances", "account_id")],
)

FINGERPRINT = Subject(
    handler="fingerprint.handler",
    events=[{"vote_id": "v-1", "poll": "colour", "choice": "blue"}],
    root=HERE,
    environment={"VOTES": "votes", "POLLS": "polls"},
    tables=[Table("votes", "vote_id", ttl="expires_at"), Table("polls", "poll", "choice")],
    key="vote_id",
)

STABLE_CHARGE_KEY = Subject(
    handler="stable_charge_key.handler",
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
    handler="upsert.handler",
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

APPLIED_IDS = Subject(
    handler="applied_ids.handler",
    events=[
        {"sheet_id": "s-1", "project": "bridge", "hours": 8},
        {"sheet_id": "s-2", "project": "bridge", "hours": 3},
    ],
    root=HERE,
    environment={"PROJECTS": "projects"},
    tables=[Table("projects", "project")],
)

VERSION_CHECK = Subject(
    handler="version_check.handler",
    events=[
        {"contract_id": "c-1", "number": 3, "more_seats": 10},
        {"contract_id": "c-2", "number": 1, "more_seats": 5},
    ],
    root=HERE,
    environment={"CONTRACTS": "contracts"},
    tables=[
        Table(
            "contracts",
            "contract_id",
            items=[
                {"contract_id": "c-1", "version": 2, "seats": 40},
                {"contract_id": "c-2", "version": 0, "seats": 0},
            ],
        )
    ],
)


ANNOUNCE_AFTER = Subject(
    handler="announce_after.handler",
    events=[{"listing_id": "l-1", "street": "Elm Street 3", "price": 300_000}],
    root=HERE,
    environment={"LISTINGS": "listings", "TOPIC_ARN": "{topic:listed}"},
    tables=[Table("listings", "listing_id")],
    topics=["listed"],
    key="listing_id",
    repeatable=["listed"],
)

POWERTOOLS_WINDOW = Subject(
    handler="powertools_window.handler",
    events=[
        {"shipment_id": "s-1", "parcel": "p-1", "address": "Elm Street 3"},
        {"shipment_id": "s-2", "parcel": "p-2", "address": "Oak Road 12"},
    ],
    root=HERE,
    environment={"IDEMPOTENCY": "idempotency", "CARRIER_API": "https://carrier.test"},
    tables=[Table("idempotency", "id", ttl="expiration")],
    key="shipment_id",
)

SOUND = (
    *(CONDITIONAL_PUT, ONCE, THREAD_POOL, FINGERPRINT, STABLE_CHARGE_KEY, UPSERT),
    *(APPLIED_IDS, VERSION_CHECK, ANNOUNCE_AFTER, POWERTOOLS_WINDOW),
)
