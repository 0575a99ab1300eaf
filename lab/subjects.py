"""The approaches as subjects of checks: the resources, messages and boundary calls of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

from lab.stores import postgres_store, redis_store
from once.settings import Settings, TableSettings
from redelivery import Answer, Method, Subject, Table

PAYMENTS_URL = "https://payments.example/charges"
EVENT_TYPE = "order.placed"

_ROOT = Path(__file__).resolve().parents[1]
_DAY = 24 * 60 * 60

ORDERS: tuple[dict[str, Any], ...] = (
    {"order_id": "o-1", "customer_id": "c-1", "amount": 1999},
    {"order_id": "o-2", "customer_id": "c-2", "amount": 4500},
)
_ORDERS_TABLE = Table("orders", key="order_id")
_PROCESSED = Table("processed", key="id", ttl="expires_at")

_POSTGRES_CALLS = tuple(
    Method(path, unavailable=lambda: psycopg.OperationalError("the connection is closed"))
    for path in ("psycopg:Cursor.execute", "psycopg:Connection.commit")
)


@dataclass(frozen=True, slots=True)
class Approach:
    """One approach of the lab.

    Attributes:
        name: its name in the matrix.
        make: returns its subject, for its name and the URLs of the servers that it needs.
        servers: names of those servers, as in `lab.stores`.
    """

    name: str
    make: Callable[[str, Mapping[str, str]], Subject]
    servers: tuple[str, ...] = ()

    def subject(self, urls: Mapping[str, str]) -> Subject:
        """Return the subject.

        Args:
            urls: the URL of each server by its name.
        """
        return self.make(self.name, urls)


def _subject(module: str, **more: Any) -> Subject:
    return Subject(
        **{
            "handler": f"lab.approaches.{module}.lambda_handler",
            "events": ORDERS,
            "root": _ROOT,
            "answers": (Answer(PAYMENTS_URL, body={"id": "ch-1"}, method="POST"),),
            "key": "order_id",
            **more,
            "environment": {"PAYMENTS_URL": PAYMENTS_URL, **more.get("environment", {})},
        }
    )


def _with_tables(*tables: Table, **more: Any) -> Callable[[str, Mapping[str, str]], Subject]:
    return lambda name, _: _subject(name, tables=tables, **more)


def _with_redis(ttl_seconds: int) -> Callable[[str, Mapping[str, str]], Subject]:
    call = Method(
        "redis.client:Redis.execute_command",
        unavailable=lambda: redis.ConnectionError("Connection refused"),
    )
    return lambda _, urls: _subject(
        "redis_key",
        tables=(_ORDERS_TABLE,),
        environment={"REDIS_URL": urls["redis"], "TTL_SECONDS": str(ttl_seconds)},
        methods=(call,),
        stores=(redis_store(urls["redis"]),),
    )


def _with_postgres(name: str, urls: Mapping[str, str]) -> Subject:
    return _subject(
        name,
        environment={"DATABASE_URL": urls["postgres"]},
        methods=_POSTGRES_CALLS,
        stores=(postgres_store(urls["postgres"]),),
    )


def _once(name: str, _: Mapping[str, str]) -> Subject:
    settings = Settings(
        consumer="orders",
        event_types=(EVENT_TYPE,),
        queue_url="{source}",
        dead_letter_url="{dlq}",
        dedup_table="dedup",
        tables={"orders": TableSettings(name="orders", key=("order_id",))},
        dedup_window_seconds=45 * _DAY,
        effect_timeout_seconds=8,
    )
    return _subject(
        name,
        events=[
            {
                "specversion": "1.0",
                "id": f"placed-{order['order_id']}",
                "source": "/shop",
                "type": EVENT_TYPE,
                "data": order,
            }
            for order in ORDERS
        ],
        key="id",
        tables=(_ORDERS_TABLE, Table("dedup", key="pk", ttl="expires_at")),
        environment=settings.to_env(),
        keep=("once",),
    )


_TABLES = _with_tables(_ORDERS_TABLE, _PROCESSED)
_IDEMPOTENCY = _with_tables(_ORDERS_TABLE, Table("idempotency", key="id", ttl="expiration"))

APPROACHES = {
    approach.name: approach
    for approach in (
        Approach("none", _with_tables(_ORDERS_TABLE)),
        Approach("message_id", _TABLES),
        Approach("get_then_put", _TABLES),
        Approach("claim_first", _TABLES),
        Approach("work_first", _TABLES),
        Approach("postgres_unique", _with_postgres, servers=("postgres",)),
        Approach("redis_short", _with_redis(60), servers=("redis",)),
        Approach("redis_long", _with_redis(_DAY), servers=("redis",)),
        Approach("fifo_window", _with_tables(_ORDERS_TABLE, fifo=True)),
        Approach(
            "item_condition", _with_tables(Table("orders", key="customer_id", sort_key="order_id"))
        ),
        Approach("provider_key", _with_tables(_ORDERS_TABLE)),
        Approach("powertools_default", _IDEMPOTENCY),
        Approach("powertools_advised", _IDEMPOTENCY),
        Approach("once", _once),
    )
}
"""The approaches by name, in the order of the matrix."""
