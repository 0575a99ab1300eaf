"""A function with one command, beside `one_handler`."""

from msgspec import Struct

from once import Commands, Scope, Transaction

api = Commands("one_command")
ORDERS = api.table("orders")


class Order(Struct, frozen=True):
    """The data of a command."""

    order_id: str


@api.handles("place-order", Order)
def store(command: Order, tx: Transaction) -> Order:
    tx.put(ORDERS, {"order_id": command.order_id})
    return command


lambda_handler = api.http({"POST /orders": "place-order"}, scope=Scope.claim("sub"))
