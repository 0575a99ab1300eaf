"""A function whose callers have tokens of an issuer."""

import os

from msgspec import Struct

from once import Answer, Commands, Scope, Transaction

api = Commands("desk")
COUNTERS = api.table("counters")


class Visit(Struct, frozen=True):
    """The data of `count-visit`."""

    visitor: str


@api.handles("count-visit", Visit)
def count(command: Visit, tx: Transaction) -> Answer:
    """Count a visit. Only a stored answer has the same number a second time."""
    tx.update(COUNTERS, {"id": command.visitor}, add={"amount": 1})
    return Answer({"number": os.urandom(8).hex()}, status=201)


lambda_handler = api.http({"POST /orders": "count-visit"}, scope=Scope.claim("sub"))
