"""A faulty version of the consumer `inventory`: every handler fails."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("inventory")


class AnyEvent(Struct, frozen=True):
    """An event of any type."""

    order_id: str


@consumer.handles("order.placed", AnyEvent)
@consumer.handles("payment.captured", AnyEvent)
@consumer.handles("payment.declined", AnyEvent)
def fail(event: AnyEvent, tx: Transaction) -> None:
    """Fail, as a version does that was deployed with a mistake."""
    del event, tx
    raise RuntimeError("this version is faulty")


lambda_handler = consumer.lambda_handler
