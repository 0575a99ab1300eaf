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


@dataclass(frozen=True, slots=True)
class Approach:
    """One approach of the lab.

    Attributes:
        subject: returns its subject, for the URL of each server that it needs by the server's name.
        servers: names of those servers, as in `lab.stores`.
    """

    subject: Callable[[Mapping[str, str]], Subject]
    servers: tuple[str, ...] = ()


def _subject(module: str, **more: Any) -> Subject:
    return Subject(
        **{
            "handler": f"lab.approaches.{module}.lambda_handler",
            "events": ORDERS,
            "root": _ROOT,
            "answers": (Answer(PAYMENTS_URL, body={"id": "ch-1"}, method="POST"),),
            "key": "order_id",
            "other_content": "error",
            **more,
            "environment": {"PAYMENTS_URL": PAYMENTS_URL, **more.get("environment", {})},
        }
    )


def _on_dynamodb(module: str, *tables: Table, **more: Any) -> Approach:
    return Approach(lambda _: _subject(module, tables=tables, **more))


def _on_redis(ttl_seconds: int) -> Approach:
    call = Method(
        "redis.client:Redis.execute_command",
        unavailable=lambda: redis.ConnectionError("Connection refused"),
    )

    def subject(urls: Mapping[str, str]) -> Subject:
        return _subject(
            "redis_key",
            tables=(_ORDERS_TABLE,),
            environment={"REDIS_URL": urls["redis"], "TTL_SECONDS": str(ttl_seconds)},
            methods=(call,),
            stores=(redis_store(urls["redis"]),),
        )

    return Approach(subject, servers=("redis",))


def _postgres_unique(urls: Mapping[str, str]) -> Subject:
    calls = (
        Method(path, unavailable=lambda: psycopg.OperationalError("the connection is closed"))
        for path in ("psycopg:Cursor.execute", "psycopg:Connection.commit")
    )
    return _subject(
        "postgres_unique",
        environment={"DATABASE_URL": urls["postgres"]},
        methods=tuple(calls),
        stores=(postgres_store(urls["postgres"]),),
    )


def _once(_: Mapping[str, str]) -> Subject:
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
        "once",
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
    )


_IDEMPOTENCY = (_ORDERS_TABLE, Table("idempotency", key="id", ttl="expiration"))

APPROACHES = {
    "none": _on_dynamodb("none", _ORDERS_TABLE),
    **{
        name: _on_dynamodb(name, _ORDERS_TABLE, Table("processed", key="id", ttl="expires_at"))
        for name in ("message_id", "get_then_put", "claim_first", "work_first")
    },
    "postgres_unique": Approach(_postgres_unique, servers=("postgres",)),
    "redis_short": _on_redis(60),
    "redis_long": _on_redis(_DAY),
    "fifo_window": _on_dynamodb("fifo_window", _ORDERS_TABLE, fifo=True),
    "item_condition": _on_dynamodb(
        "item_condition", Table("orders", key="customer_id", sort_key="order_id")
    ),
    "provider_key": _on_dynamodb("provider_key", _ORDERS_TABLE),
    "powertools_default": _on_dynamodb("powertools", *_IDEMPOTENCY),
    "powertools_advised": _on_dynamodb("powertools", *_IDEMPOTENCY, environment={"ADVISED": "1"}),
    "once": Approach(_once),
}
"""The approaches by name, in the order of the matrix."""
