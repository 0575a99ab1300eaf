"""Consumers of every source, with handlers in temporary folders."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from once.cdk import ConsumerProps, Source

TOPIC = "arn:aws:sns:eu-west-1:111122223333:orders"
SENDER = "arn:aws:iam::111122223333:role/shop"
HANDLER = """
from msgspec import Struct
from once import Consumer, Key, Transaction
consumer = Consumer({name!r})
class Data(Struct):
    name: str
{handlers}
lambda_handler = consumer.lambda_handler
"""
HANDLES = """
@consumer.handles({event!r}, Data, key={key})
def handle_{number}(event: Data, tx: Transaction) -> None:
    pass
"""
LINES = {
    "bridge": (("Instance Changed", "Instance Gone"), Source.event_bridge("aws.ec2", bus="own")),
    "files": (("ObjectCreated", "ObjectRemoved"), Source.s3("pictures", prefix="in/")),
    "topic": (("order.placed",), Source.sns(TOPIC, attribute="kind", type_field="kind")),
    "plain": (("order.placed",), Source.json(type="order.placed", senders=(SENDER,))),
    "nightly": (("night.fell",), Source.schedule("cron(0 3 * * ? *)", timezone="Europe/Berlin")),
}
Make = Callable[..., ConsumerProps]


def line(folder: Path, name: str, key: str = 'Key.field("name")', **change: Any) -> ConsumerProps:
    """Return a consumer, with a handler of this key rule for each of its types."""
    types, source = LINES[name]
    props = replace(ConsumerProps(name, external=types, source=source), **change)
    handlers = "".join(
        HANDLES.format(event=event, key=key, number=number)
        for number, event in enumerate(props.external)
    )
    folder.mkdir()
    folder.joinpath("handler.py").write_text(HANDLER.format(name=name, handlers=handlers))
    return replace(props, folder=folder)
