"""Books seats, once for each event, in the name of the account."""

from functools import cache

import boto3
from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("tickets")
SEATS = consumer.table("seats")


class SeatBooked(Struct, frozen=True):
    """A customer has booked seats of a show."""

    show: str
    seats: int


@consumer.handles("seat.booked", SeatBooked)
def book(event: SeatBooked, tx: Transaction) -> None:
    """Take the seats from those that are available."""
    tx.update(
        SEATS,
        {"show": event.show},
        "SET available = available - :seats, seller = :seller",
        {":seats": event.seats, ":seller": _account()},
        condition="available >= :seats",
    )


@cache
def _account() -> str:
    # A service that the library does not call: the package has the models of all.
    account: str = boto3.client("sts").get_caller_identity()["Account"]
    return account


lambda_handler = consumer.lambda_handler
