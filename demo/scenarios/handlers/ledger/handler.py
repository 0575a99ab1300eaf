"""Ledger: notes each movement of an account, in the order in which it is processed."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("ledger")
ACCOUNTS = consumer.table("accounts")
_failed: set[tuple[str, int]] = set()


class Moved(Struct, frozen=True):
    """A movement, numbered within its account; `fails` asks the first attempt to fail."""

    account_id: str
    number: int
    fails: bool


class Balanced(Struct, frozen=True):
    """A movement that the ledger has noted."""

    account_id: str
    number: int


@consumer.handles("account.moved", Moved)
def note(event: Moved, tx: Transaction) -> None:
    """Append the movement's number to the account, and publish it."""
    if event.fails and (event.account_id, event.number) not in _failed:
        _failed.add((event.account_id, event.number))
        raise RuntimeError("the movement asks for a failure")
    tx.update(ACCOUNTS, {"account_id": event.account_id}, append={"applied": [event.number]})
    tx.publish("account.balanced", Balanced(event.account_id, event.number))


lambda_handler = consumer.lambda_handler
