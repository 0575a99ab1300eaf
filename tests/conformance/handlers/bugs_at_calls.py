"""Planted bugs that show when something happens at a call: a crash, a lost answer, a refusal."""

from redelivery import Answer, Fault, Kind, Subject, Table
from tests.conformance.handlers.planted_bug import HERE, PlantedBug

CLAIM_FIRST = PlantedBug(
    Subject(
        handler="claim_first.handler",
        events=[
            {"order_id": "o-1", "customer": "Ada", "total": 1250},
            {"order_id": "o-2", "customer": "Bob", "total": 80},
        ],
        root=HERE,
        environment={"CLAIMS": "claims", "INVOICES": "invoices"},
        tables=[Table("claims", "order_id", ttl="expires_at"), Table("invoices", "order_id")],
    ),
    found_by={
        Fault.DIES_BEFORE: Kind.LOST,
        Fault.DIES_AFTER: Kind.LOST,
        Fault.ANSWER_LOST: Kind.LOST,
        Fault.REFUSED: Kind.LOST,
        Fault.DEADLINE: Kind.LOST,
    },
    call="put_item",
    harmless=(Fault.DELIVERED_AGAIN, Fault.SENT_AGAIN, Fault.IN_PARALLEL, Fault.POISON),
)

LOCK_WITHOUT_LEASE = PlantedBug(
    Subject(
        handler="lock_without_lease.handler",
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
        handler="counter_beside_put.handler",
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
    Subject(
        handler="delete_first.handler",
        events=[{"parcel_id": "p-1", "depot": "Bern"}, {"parcel_id": "p-2", "depot": "Rome"}],
        root=HERE,
        environment={"PARCELS": "parcels", "QUEUE_URL": "{source}"},
        tables=[Table("parcels", "parcel_id")],
    ),
    found_by={
        Fault.DIES_BEFORE: Kind.ACKNOWLEDGED_EARLY,
        Fault.DIES_AFTER: Kind.ACKNOWLEDGED_EARLY,
    },
    call="put_item",
    harmless=(Fault.SENT_AGAIN, Fault.REDRIVEN, Fault.POISON),
)

SWALLOWED_ERRORS = PlantedBug(
    Subject(
        handler="swallowed_errors.handler",
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
        handler="conflict_is_duplicate.handler",
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
        handler="fresh_charge_key.handler",
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

AT_CALLS = (
    *(CLAIM_FIRST, LOCK_WITHOUT_LEASE, COUNTER_BESIDE_PUT, DELETE_FIRST, SWALLOWED_ERRORS),
    *(CONFLICT_IS_DUPLICATE, FRESH_CHARGE_KEY),
)
