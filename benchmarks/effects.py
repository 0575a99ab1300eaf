"""Effects: a batch of messages that each call a provider, which takes its time to answer.

Further keys of these rows are `kind` ("effects"), `call_ms`, `vs_one_call` (wall time of an
invocation without two answers of DynamoDB; one call = 1), `vs_sequential` (Lambda time of a
message; Once with one message a batch = 1), `vs_raw_threads` and `requests_per_message`.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    EventType,
    async_process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from msgspec import Struct, to_builtins

from benchmarks.batches import TEN, Wrong, measured, run
from benchmarks.contenders import BOTO3, GROUP, NAME, POWERTOOLS, Connect, Handle, once, settings_of
from benchmarks.deployed.order import OrderPlaced, item_of, serialized
from benchmarks.deployed.powertools import idempotent, powertools
from benchmarks.deployed.raw import claim_of
from benchmarks.dynamodb import IDEMPOTENCY, KEYS, ORDERS
from benchmarks.orders import EVENT_TYPE, Event, lambda_event, order_id
from benchmarks.rows import Row, Sample, middle, ratio, row_of, side_by_side
from benchmarks.server import BenchServer
from once import Call, Consumer, Policy, Transaction
from once.ops.aws.clients import batches
from once.runtime.sdk import SDK

CALLS_MS = 50, 300
DELAY_MS = 5
MESSAGES = 20
_TIMEOUT_SECONDS = 10

ONCE, ONCE_ASYNC, ONE_BY_ONE = "Once", "Once, async", "Once, one a batch"
POWERTOOLS_ASYNC, RAW_THREADS = "Powertools, async", "raw, 10 threads"


class Charge(Struct, frozen=True):
    """The request of an effect."""

    order_id: str


class Provider:
    """Charges an order after `call_ms`; a key that it knows gets the same answer."""

    def __init__(self, call_ms: int) -> None:
        self.seconds = call_ms / 1000
        self.keys: Counter[tuple[str, str]] = Counter()

    def charge(self, key: str, order: str) -> str:
        """Return the reference of the charge."""
        time.sleep(self.seconds)
        return self.answer(key, order)

    def answer(self, key: str, order: str) -> str:
        """Return the reference without the time."""
        self.keys[order, key] += 1
        return f"charge of {order}"


def _once(connect: Connect, provider: Provider, *, in_loop: bool = False) -> Handle:
    def consumer_of() -> Consumer:
        consumer = Consumer(NAME)
        orders = consumer.table(ORDERS)

        def charge(request: Charge, call: Call) -> str:
            return provider.charge(call.key, request.order_id)

        async def charge_async(request: Charge, call: Call) -> str:
            await asyncio.sleep(provider.seconds)
            return provider.answer(call.key, request.order_id)

        declare = consumer.effect(
            "charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=23 * 60 * 60
        )
        effect = declare(charge_async) if in_loop else declare(charge)

        @consumer.handles(EVENT_TYPE, OrderPlaced)
        def begin(event: OrderPlaced, tx: Transaction) -> None:
            tx.perform(effect, Charge(event.order_id))

        @consumer.completes(effect)
        def charged(event: OrderPlaced, outcome: str, tx: Transaction) -> None:
            tx.put(orders, {**item_of(to_builtins(event)), "charge": outcome})

        return consumer

    settings = {"group_size": GROUP, "effect_timeout_seconds": _TIMEOUT_SECONDS}
    return once(consumer_of, **settings)(connect)


def _powertools(connect: Connect, provider: Provider, *, in_loop: bool = False) -> Handle:
    """Its idempotency has no `async def`, so in a loop the processor waits for ten threads."""
    client, stored = connect("dynamodb"), {"records": IDEMPOTENCY, "key": KEYS[IDEMPOTENCY]}

    def charged(*, message: dict[str, Any]) -> None:
        provider.charge(message["id"], message["data"]["order_id"])
        client.put_item(TableName=ORDERS, Item=serialized(message["data"]))

    if not in_loop:
        return powertools(charged, client, **stored)
    config, place = idempotent(charged, client, **stored)
    processor, pool = AsyncBatchProcessor(event_type=EventType.SQS), ThreadPoolExecutor(TEN)

    async def work(record: SQSRecord) -> None:
        call = partial(place, message=json.loads(record.body))
        await asyncio.get_running_loop().run_in_executor(pool, call)

    def handle(event: Event, context: Any) -> Any:
        config.register_lambda_context(context)
        return async_process_partial_response(
            event=event, record_handler=work, processor=processor, context=context
        )

    return handle


def _raw_threads(connect: Connect, provider: Provider) -> Handle:
    """The call, then one transaction."""
    client, settings, pool = connect("dynamodb"), settings_of(), ThreadPoolExecutor(TEN)

    def work(record: dict[str, Any]) -> None:
        message = json.loads(record["body"])
        provider.charge(message["id"], message["data"]["order_id"])
        order = {"TableName": ORDERS, "Item": serialized(message["data"])}
        puts = [{"Put": each} for each in (claim_of(message, settings), order)]
        client.transact_write_items(TransactItems=puts)

    def handle(event: Event, _: Any) -> Any:
        list(pool.map(work, event["Records"]))
        return {"batchItemFailures": []}

    return handle


CONTENDERS: dict[str, tuple[Callable[[Connect, Provider], Handle], int]] = {
    ONCE: (_once, TEN),
    ONCE_ASYNC: (partial(_once, in_loop=True), TEN),
    ONE_BY_ONE: (_once, 1),
    POWERTOOLS: (_powertools, TEN),
    POWERTOOLS_ASYNC: (partial(_powertools, in_loop=True), TEN),
    RAW_THREADS: (_raw_threads, TEN),
}
"""Each makes the function, and has the number of messages in its batches."""


def take(server: BenchServer, name: str, call_ms: int, messages: int = MESSAGES) -> Sample:
    """Measure one contender once, after as many messages with a provider that answers at once.

    Each order must be charged under one key, and put once.
    """
    (prepare, records), provider = CONTENDERS[name], Provider(0)
    server.reset()
    config = SDK if name in (ONCE, ONCE_ASYNC, ONE_BY_ONE) else BOTO3
    handle = prepare(lambda service: server.client(service, config), provider)
    events = [lambda_event(each) for each in batches(range(2 * messages), records)]
    half = len(events) // 2
    failed = run(handle, events[:half])
    provider.seconds = call_ms / 1000
    server.faults(DELAY_MS, conflicts=0, seed=0)
    sample, seen, more = measured(server, handle, events[half:], messages)
    failed += more
    orders = Counter(map(order_id, range(2 * messages)))
    charged = Counter(order for order, _ in provider.keys)
    if failed or seen.orders != orders or charged != orders:
        raise Wrong(
            f"{name}, calls of {call_ms} ms: {len(failed)} failed, {len(seen.orders)} orders and "
            f"{len(charged)} charges of {len(orders)}"
        )
    return sample


def effect_rows(
    server: BenchServer, call_ms: int, repeats: int, messages: int = MESSAGES
) -> Iterator[Row]:
    """Measure every contender, and yield its row."""
    samples = side_by_side(
        CONTENDERS, repeats, lambda name, _: take(server, name, call_ms, messages)
    )
    for name, own in samples.items():
        records = CONTENDERS[name][1]
        calls = [
            {"ratio": (each["wall_us"] * records / 1000 - 2 * DELAY_MS) / call_ms} for each in own
        ]
        yield row_of(
            name,
            own,
            *("wall_us", "cpu_us"),
            kind="effects",
            records=records,
            call_ms=call_ms,
            requests_per_message=middle(own, "requests", 2),
            vs_one_call=middle(calls, "ratio", 3),
            vs_sequential=ratio(own, samples[ONE_BY_ONE], "wall_us"),
            vs_raw_threads=ratio(own, samples[RAW_THREADS], "wall_us"),
        )
