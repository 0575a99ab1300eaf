"""Planted bugs that show in what SQS delivers: copies, late messages, batches, other content."""

from redelivery import Fault, Kind, Subject, Table
from tests.conformance.handlers.planted_bug import HERE, PlantedBug

MESSAGE_ID_KEY = PlantedBug(
    Subject(
        handler="message_id_key.handler",
        events=[{"account_id": "a-1", "points": 30}, {"account_id": "a-2", "points": 5}],
        root=HERE,
        environment={"ACCOUNTS": "accounts", "PROCESSED": "processed"},
        tables=[Table("accounts", "account_id"), Table("processed", "id", ttl="expires_at")],
    ),
    found_by=dict.fromkeys((Fault.SENT_AGAIN, Fault.REDRIVEN, Fault.IN_PARALLEL), Kind.DOUBLED),
    call="transact_write_items",
    harmless=(Fault.DELIVERED_AGAIN, Fault.DIES_AFTER, Fault.TWICE_IN_BATCH),
)

LOOK_UP_FIRST = PlantedBug(
    Subject(
        handler="look_up_first.handler",
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

SHORT_WINDOW = PlantedBug(
    Subject(
        handler="short_window.handler",
        events=[
            {"refund_id": "r-1", "payment": "p-1", "amount": 900},
            {"refund_id": "r-2", "payment": "p-2", "amount": 70},
        ],
        root=HERE,
        environment={"IDEMPOTENCY": "idempotency", "PAYMENTS_API": "https://payments.test"},
        tables=[Table("idempotency", "id", ttl="expiration")],
    ),
    found_by={Fault.AFTER_EXPIRY: Kind.DOUBLED},
    call="request",
    harmless=(Fault.REDRIVEN, Fault.DIES_AFTER, Fault.IN_PARALLEL, Fault.SENT_AGAIN),
)

ANNOUNCE_FIRST = PlantedBug(
    Subject(
        handler="announce_first.handler",
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
        handler="wrong_identifiers.handler",
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
        handler="first_record.handler",
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
        handler="no_fingerprint.handler",
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
        handler="background_thread.handler",
        events=[{"survey_id": "s-1", "score": 7}, {"survey_id": "s-2", "score": 9}],
        root=HERE,
        environment={"RESULTS": "results"},
        tables=[Table("results", "survey_id")],
    ),
    found_by={Fault.BATCH: Kind.ACKNOWLEDGED_EARLY},
    call="put_item",
    harmless=(),
)

IN_DELIVERY = (
    *(MESSAGE_ID_KEY, LOOK_UP_FIRST, SHORT_WINDOW, ANNOUNCE_FIRST, WRONG_IDENTIFIERS),
    *(FIRST_RECORD, NO_FINGERPRINT, BACKGROUND_THREAD),
)
