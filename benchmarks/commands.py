"""Commands beside one transaction with boto3, and beside Powertools' decorator.

Each function answers `POST /orders`: it stores an order and confirms it. The plain transaction has
a record of the key, but no answer: an order is stored once, and a repeated request is refused.

Further keys of these rows are `kind` ("commands") and `sent`: whether the request is `new` or
`repeated`. The plain transaction of a repeated request is a cancelled one.
"""

import gc
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from msgspec import to_builtins

from benchmarks.batches import Wrong
from benchmarks.contenders import BOTO3, LOG, NAME, POWERTOOLS, RAW, WINDOW_SECONDS, Connect, quiet
from benchmarks.contenders import settings_of as consumer_settings
from benchmarks.deployed.order import OrderPlaced, item_of, serialized
from benchmarks.deployed.raw import claim_of
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.dynamodb import DEDUP, IDEMPOTENCY, KEYS, MODEL, ORDERS, Counts, Delay
from benchmarks.orders import body, order_id
from benchmarks.rows import Row, Sample, ratio, row_of, side_by_side, timed
from benchmarks.server import BenchServer
from benchmarks.webhooks import url_event
from once import Answer, Commands, Scope, Transaction
from once.commands.runner import CommandRuntime
from once.runtime.sdk import SDK
from once.settings import CommandSettings, TableSettings
from once.testing.events import FakeContext

ONCE = "Once, command"
NEW, REPEATED = SENT = ("new", "repeated")
PLACE = "place-order"
DELAYS: tuple[Delay, ...] = (0, 5, MODEL)
PAIRS, WARM = 200, 20
"""Requests of each kind that each function gets in one setting, and those before them."""

_CREATED, _CONFLICT = 201, 409
_CONTEXT = FakeContext(900_000)


def lambda_event(number: int) -> dict[str, Any]:
    """Return the event of an invocation with an order, whose sender an HTTP API has verified."""
    headers = {
        "content-type": "application/json",
        "idempotency-key": f'"{order_id(number)}"',
        "host": "bench.execute-api.us-east-1.amazonaws.com",
    }
    event = url_event("/orders", headers, json.dumps(json.loads(body(number))["data"]))
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"sub": "client-1"}}}
    return event


def _answer(status: int, data: Mapping[str, Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    return {"statusCode": status, "headers": headers, "body": json.dumps(data)}


def _raw(connect: Connect) -> Handle:
    client, settings = connect("dynamodb"), consumer_settings()
    cancelled = client.exceptions.TransactionCanceledException

    def handle(event: dict[str, Any], _: Any) -> dict[str, Any]:
        order, key = json.loads(event["body"]), event["headers"]["idempotency-key"]
        claim = claim_of({"source": PLACE, "id": key}, settings)
        puts = [{"Put": claim}, {"Put": {"TableName": ORDERS, "Item": serialized(order)}}]
        try:
            client.transact_write_items(TransactItems=puts)
        except cancelled:
            return _answer(_CONFLICT, {})
        return _answer(_CREATED, {"order_id": order["order_id"]})

    return handle


def _powertools(connect: Connect) -> Handle:
    client = connect("dynamodb")
    layer = DynamoDBPersistenceLayer(IDEMPOTENCY, key_attr=KEYS[IDEMPOTENCY], boto3_client=client)
    config = IdempotencyConfig(event_key_jmespath='headers."idempotency-key"')

    @idempotent(config=config, persistence_store=layer)
    def handle(event: dict[str, Any], _: Any) -> dict[str, Any]:
        order = json.loads(event["body"])
        client.put_item(TableName=ORDERS, Item=serialized(order))
        return _answer(_CREATED, {"order_id": order["order_id"]})

    return handle


def _once(connect: Connect) -> Handle:
    api = Commands(NAME)
    orders = api.table(ORDERS)

    @api.handles(PLACE, OrderPlaced)
    def place(command: OrderPlaced, tx: Transaction) -> Answer:
        tx.put(orders, item_of(to_builtins(command)))
        return Answer({"order_id": command.order_id}, status=_CREATED)

    settings = CommandSettings(
        consumer=NAME,
        commands=(PLACE,),
        dedup_table=DEDUP,
        tables={ORDERS: TableSettings(ORDERS, (KEYS[ORDERS],))},
        dedup_window_seconds=WINDOW_SECONDS,
    )
    logger = Logger(service=NAME, stream=LOG)
    api.runner = api.bound_to(CommandRuntime(settings, connect("dynamodb"), logger))
    return quiet(api.http({"POST /orders": PLACE}, scope=Scope.claim("sub")))


FUNCTIONS: dict[str, Callable[[Connect], Handle]] = {
    RAW: _raw,
    POWERTOOLS: _powertools,
    ONCE: _once,
}
"""Makes each function, warm. Ratios are to the first one."""


def measure(server: BenchServer, delay_ms: Delay, pairs: int) -> list[Row]:
    """Return the rows of each function, for new and for repeated requests."""
    server.reset()
    handles = {
        name: prepare(partial(server.client, config=SDK if name == ONCE else BOTO3))
        for name, prepare in FUNCTIONS.items()
    }
    costs: dict[tuple[str, str], Counts] = {}
    first: dict[str, str] = {}
    for sent in SENT:
        for name, handle in handles.items():
            server.count()
            _check(name, sent, handle(lambda_event(0), _CONTEXT), first)
            costs[name, sent] = server.seen().counts
    for number in range(1, WARM):
        for handle in handles.values():
            handle(lambda_event(number), _CONTEXT)
    server.faults(delay_ms, conflicts=0, seed=0)
    samples = _samples(handles, pairs)
    expected = Counter(dict.fromkeys(map(order_id, range(WARM + pairs)), len(FUNCTIONS)))
    if (stored := server.seen().orders) != expected:
        puts = stored.total()
        raise Wrong(f"{len(expected)} orders were expected; {len(stored)} were put, {puts} times")
    return [
        row_of(
            name,
            own,
            "wall_us",
            "cpu_us",
            **asdict(costs[name, sent]),
            kind="commands",
            records=1,
            delay_ms=delay_ms,
            duplicates=float(sent == REPEATED),
            sent=sent,
            vs_raw=ratio(own, samples[RAW, sent], "wall_us"),
            cpu_vs_raw=ratio(own, samples[RAW, sent], "cpu_us"),
            vs_powertools=ratio(own, samples[POWERTOOLS, sent], "wall_us"),
        )
        for (name, sent), own in samples.items()
    ]


def _samples(handles: Mapping[str, Handle], pairs: int) -> dict[tuple[str, str], Sequence[Sample]]:
    """Return the times of each function, for the same requests in the same order."""
    events = [lambda_event(WARM + number) for number in range(pairs)]
    found: dict[tuple[str, str], Sequence[Sample]] = {}
    first: list[dict[str, str]] = [{} for _ in events]
    for sent in SENT:

        def take(name: str, number: int, sent: str = sent) -> Sample:
            answer, sample = timed(lambda: handles[name](events[number], _CONTEXT))
            _check(name, sent, answer, first[number])
            return sample

        gc.collect()
        for name, own in side_by_side(handles, pairs, take).items():
            found[name, sent] = own
    return found


def _check(name: str, sent: str, answer: Mapping[str, Any], first: dict[str, str]) -> None:
    """Compare an answer with the `first` one of the function; a plain transaction knows none."""
    body = first.setdefault(name, answer["body"])
    knows = name != RAW or sent == NEW
    right = (_CREATED, body) if knows else (_CONFLICT, answer["body"])
    if (answer["statusCode"], answer["body"]) != right:
        raise Wrong(f"{name}: a {sent} request had another answer, with {answer['statusCode']}")
