"""Bookings: counts how often each booking was applied, with the dedup record on its item."""

from msgspec import Struct

from once import Consumer, Key, Transaction

consumer = Consumer("bookings")
BOOKINGS = consumer.table("bookings")


class Booked(Struct, frozen=True):
    """A seat that was booked."""

    booking_id: str


@consumer.handles("seat.booked", Booked, key=Key.field("booking_id"))
def book(event: Booked, tx: Transaction) -> None:
    """Count the booking."""
    tx.update(BOOKINGS, {"booking_id": event.booking_id}, add={"times": 1})


lambda_handler = consumer.lambda_handler
