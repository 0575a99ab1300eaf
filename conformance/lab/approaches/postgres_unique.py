"""A unique constraint: INSERT … ON CONFLICT DO NOTHING, and the order in the same transaction.

Advised by: microservices.io, "Idempotent Consumer" (a PROCESSED_MESSAGES table), and articles on
the inbox pattern, with a job that deletes old keys.
Promises: the key and the rows of the same database commit together or not at all.
Leaves out, in its own words: what is outside of the database. "If event processing includes
communication with world outside database, … such handling won't work" (PgQ's guide). And keys that
the job has deleted: delete them only "past your maximum redelivery window".
"""

import json
import os
from typing import Any

import psycopg

from lab.approaches.checkout import charge, handler_of


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, in the transaction that inserts the key."""
    order = json.loads(record["body"])
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        claimed = connection.execute(
            "INSERT INTO processed_messages (message_key) VALUES (%s) ON CONFLICT DO NOTHING",
            [order["order_id"]],
        )
        if claimed.rowcount == 0:
            return  # a duplicate
        charge_id = charge(order["order_id"], order["amount"])
        connection.execute(
            "INSERT INTO orders (order_id, amount, charge_id) VALUES (%s, %s, %s)",
            [order["order_id"], order["amount"], charge_id],
        )


lambda_handler = handler_of(process)
