"""Books a seat once for each booking, however often its message arrives."""

from dataclasses import dataclass

from once import Consumer, Key, PermanentError, Transaction

consumer = Consumer("tickets")
SEATS = consumer.table("seats")


@dataclass(frozen=True)
class SeatBooked:
    """The message: another team's JSON, without an envelope."""

    booking: str
    seat: str


@consumer.handles("seat.booked", SeatBooked, key=Key.field("booking"))
def book(event: SeatBooked, tx: Transaction) -> None:
    """Write the booking into its seat, and count it."""
    if not event.seat:
        raise PermanentError("the booking names no seat")
    tx.update(SEATS, {"seat": event.seat}, set={"booking": event.booking}, add={"bookings": 1})


lambda_handler = consumer.lambda_handler
