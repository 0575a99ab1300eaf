"""Once with pydantic models: the event, the request of the charge, its outcome."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lab.approaches.checkout import charge
from once import Call, Consumer, Policy, Transaction

consumer = Consumer("orders")
ORDERS = consumer.table("orders")


class OrderPlaced(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    order: str = Field(alias="order_id")
    amount: int = Field(gt=0)


class Charge(BaseModel, frozen=True):
    order_id: str
    amount: int


class Charged(BaseModel):
    charge_id: str
    status: Literal["paid"] = "paid"


@consumer.effect("charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=23 * 3600)
def charge_card(request: Charge, call: Call) -> Charged:
    order, seconds = request.order_id, call.timeout_seconds / 2
    made = charge(order, request.amount, idempotency_key=call.key, timeout_seconds=seconds)
    return Charged(charge_id=made)


@consumer.handles("order.placed", OrderPlaced)
def place(event: OrderPlaced, tx: Transaction) -> None:
    tx.perform(charge_card, Charge(order_id=event.order, amount=event.amount))


@consumer.completes(charge_card)
def charged(event: OrderPlaced, outcome: Charged, tx: Transaction) -> None:
    tx.put(ORDERS, {"order_id": event.order, "amount": event.amount, **outcome.model_dump()})


lambda_handler = consumer.lambda_handler
