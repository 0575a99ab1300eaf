"""Appends the numbers of an account in the order in which they come."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("ledger")
CONTROLS = consumer.table("controls")
COUNTERS = consumer.table("counters")


class Entered(Struct, frozen=True):
    account: str
    number: int


@consumer.handles("account.entered", Entered)
def enter(event: Entered, tx: Transaction) -> None:
    if tx.get(CONTROLS, {"id": event.account}):
        raise RuntimeError("the account is closed")
    account = tx.get(COUNTERS, {"id": event.account}) or {}
    numbers = f"{account.get('numbers', '')} {event.number}".strip()
    tx.put(COUNTERS, {"id": event.account, "numbers": numbers})


lambda_handler = consumer.lambda_handler
