"""Books seats, once for each event."""

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
        "SET available = available - :seats",
        {":seats": event.seats},
        condition="available >= :seats",
    )


lambda_handler = consumer.lambda_handler
