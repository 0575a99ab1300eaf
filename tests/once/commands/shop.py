"""A small shop with commands, which the tests of this package share."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from once import Answer, Commands, Problem, Refusal, Transaction, absent, present
from once.testing import FakeAws

api = Commands("checkout")


class Order(Struct, frozen=True):
    """An item of the table of orders."""

    order_id: str
    amount: int


class PlaceOrder(Struct, frozen=True):
    """The data of `place-order`."""

    order_id: str
    amount: int
    sent_at: str = ""


class OrderId(Struct, frozen=True):
    """The data of the other commands."""

    order_id: str


class Accepted(Struct, frozen=True):
    """The answer to `place-order`."""

    order_id: str


class AlreadyThere(Refusal):
    """There is an order with this id."""


class Unknown(Refusal):
    """There is no such order."""


ORDERS = api.table("orders", Order)


@api.handles("place-order", PlaceOrder, volatile=("sent_at",))
def place(command: PlaceOrder, tx: Transaction) -> Answer:
    order = Order(command.order_id, command.amount)
    tx.put(ORDERS, order, condition=absent, otherwise=AlreadyThere(command.order_id))
    tx.publish("order.placed", order)
    location = {"Location": f"/orders/{command.order_id}"}
    return Answer(Accepted(command.order_id), status=201, headers=location)


@api.handles("cancel-order", OrderId)
def cancel(command: OrderId, tx: Transaction) -> None:
    """Reads the order, which it then deletes: a second run does not find it."""
    if tx.get(ORDERS, {"order_id": command.order_id}) is None:
        raise Unknown(command.order_id)
    tx.delete(ORDERS, {"order_id": command.order_id}, condition=present)


@api.rejects(AlreadyThere)
def refuse(command: PlaceOrder, refusal: AlreadyThere, tx: Transaction) -> Problem:
    tx.publish("order.refused", {"order_id": command.order_id})
    return Problem("The order exists", detail="Choose another id.", more={"order": "o"})


@api.rejects(Unknown)
def refuse_unknown(command: OrderId, refusal: Unknown, tx: Transaction) -> dict[str, Any]:
    return {"unknown": command.order_id}


ORDER = {"order_id": "o-1", "amount": 5}


def shop(commands: Commands = api, **more: Any) -> FakeAws:
    """Return the shop's tables, for use in a `with`."""
    given = {"publishes": ("order.placed", "order.refused"), **more}
    return FakeAws(commands, {"orders": "order_id"}, **given)


def http_request(
    method: str,
    path: str,
    data: Any = None,
    *,
    key: str | None = None,
    claims: Mapping[str, str] = {},
    headers: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Return a request of an HTTP API with a JWT authorizer, in payload format 2.0."""
    sent = {} if key is None else {"idempotency-key": json.dumps(key)}
    text = data if isinstance(data, str) else json.dumps(data)
    authorizer = {"authorizer": {"jwt": {"claims": dict(claims)}}} if claims else {}
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **sent, **headers},
        "requestContext": {"http": {"method": method, "path": path}, **authorizer},
        "body": None if data is None else text,
        "isBase64Encoded": False,
    }
