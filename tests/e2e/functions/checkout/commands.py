"""The commands of both functions."""

import os

from msgspec import Struct

from once import Answer, Commands, Transaction

api = Commands("checkout")
COUNTERS = api.table("counters")


class PlaceOrder(Struct, frozen=True):
    order: str
    amount: int


@api.handles("place-order", PlaceOrder)
def place(command: PlaceOrder, tx: Transaction) -> Answer:
    tx.update(COUNTERS, {"id": command.order}, add={"amount": command.amount})
    # Only a stored answer has the same number a second time.
    return Answer({"order": command.order, "number": os.urandom(8).hex()}, status=201)
