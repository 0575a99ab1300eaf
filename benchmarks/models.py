"""Models: a message in a group of ten, by the kind of model that its event is converted into."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

import attrs
import msgspec
import pydantic

from benchmarks.batches import Setting, take
from benchmarks.contenders import GROUP, NAME, Contender, once
from benchmarks.dynamodb import ORDERS
from benchmarks.orders import EVENT_TYPE
from benchmarks.rows import Row, ratio, row_of, side_by_side
from benchmarks.server import BenchServer
from once import Consumer, Transaction
from once.runtime.sdk import SDK

SETTING = Setting(records=GROUP, delay_ms=5, messages=200)
STRUCT = "msgspec.Struct"

Make = Callable[[str, Mapping[str, Any]], Any]
"""Makes a model of this name, with these fields and their types."""

# Type checkers accept these with written fields only.
_TYPED_DICT: Any = typing.TypedDict
_NAMED_TUPLE: Any = typing.NamedTuple
_PYDANTIC: Any = pydantic.create_model
_KINDS: dict[str, Make] = {
    STRUCT: lambda name, fields: msgspec.defstruct(name, list(fields.items()), frozen=True),
    "dataclass": lambda name, fields: make_dataclass(name, fields.items(), frozen=True),
    "TypedDict": lambda name, fields: _TYPED_DICT(name, fields),
    "NamedTuple": lambda name, fields: _NAMED_TUPLE(name, fields.items()),
    "attrs": lambda name, fields: attrs.make_class(
        name, {each: attrs.field(type=kind) for each, kind in fields.items()}, frozen=True
    ),
    "pydantic": lambda name, fields: _PYDANTIC(
        name, **{each: (kind, ...) for each, kind in fields.items()}
    ),
}


def consumer_of(kind: str) -> Consumer:
    """Return a consumer that stores the ids of orders, with a model of this kind."""
    # A NamedTuple in another model is an array; events have objects.
    line: Any = _KINDS[STRUCT if kind == "NamedTuple" else kind](
        "Line", {"sku": str, "quantity": int, "unit_price": int}
    )
    lines: Any = tuple[line, ...]
    texts = dict.fromkeys(("order_id", "customer_id", "currency"), str)
    model = _KINDS[kind]("Order", {**texts, "lines": lines})
    order_id = (itemgetter if kind == "TypedDict" else attrgetter)("order_id")
    consumer = Consumer(NAME)
    orders = consumer.table(ORDERS)

    @consumer.handles(EVENT_TYPE, model)
    def store(event: Any, tx: Transaction) -> None:
        tx.put(orders, {"order_id": order_id(event)})

    return consumer


def model_rows(server: BenchServer, repeats: int, setting: Setting = SETTING) -> list[Row]:
    """Measure each kind of model, and return its row."""

    def sample(kind: str, repeat: int) -> Any:
        prepare = once(partial(consumer_of, kind), group_size=GROUP, commit_threads=1)
        contender = Contender(kind, prepare, requests=1 / GROUP, groups=True, config=SDK)
        return take(server, setting, contender, seed=repeat)

    samples = side_by_side(_KINDS, repeats, sample)
    return [
        row_of(
            kind,
            own,
            *("wall_us", "cpu_us", "requests"),
            kind="models",
            cpu_vs_struct=ratio(own, samples[STRUCT], "cpu_us"),
        )
        for kind, own in samples.items()
    ]
