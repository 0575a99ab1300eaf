"""Statements: lists what the ledger has noted, in the order in which it arrives."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("statements")
STATEMENTS = consumer.table("statements")


class Balanced(Struct, frozen=True):
    """A movement that the ledger has noted."""

    account_id: str
    number: int


@consumer.handles("account.balanced", Balanced)
def list_movement(event: Balanced, tx: Transaction) -> None:
    """Append the movement's number to the statement."""
    tx.update(STATEMENTS, {"account_id": event.account_id}, append={"applied": [event.number]})


lambda_handler = consumer.lambda_handler
