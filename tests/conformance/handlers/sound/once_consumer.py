"""Books the seats of a show, or notes that it is sold out. Written with Once."""

from typing import Annotated

from msgspec import Meta, Struct

from once import Consumer, Refusal, Transaction

consumer = Consumer("tickets")
SHOWS = consumer.table("shows")


class SeatsBooked(Struct, frozen=True):
    show: str
    seats: Annotated[int, Meta(ge=1)]


class SoldOut(Refusal):
    pass


@consumer.handles("seats.booked", SeatsBooked)
def book(event: SeatsBooked, tx: Transaction) -> None:
    tx.update(
        SHOWS,
        {"show": event.show},
        "SET seats_free = seats_free - :seats",
        {":seats": event.seats},
        condition="seats_free >= :seats",
        otherwise=SoldOut(event.show),
    )


@consumer.rejects(SoldOut)
def turn_away(event: SeatsBooked, refusal: SoldOut, tx: Transaction) -> None:
    tx.update(SHOWS, {"show": event.show}, "ADD turned_away :seats", {":seats": event.seats})


handler = consumer.lambda_handler
