"""A consumer of Once whose event is a pydantic model."""

from pydantic import BaseModel, PositiveInt

from once import Consumer, Transaction

consumer = Consumer("orders")
ORDERS = consumer.table("orders")


class OrderPlaced(BaseModel):
    order_id: str
    amount: PositiveInt


@consumer.handles("order.placed", OrderPlaced)
def place(event: OrderPlaced, tx: Transaction) -> None:
    tx.put(ORDERS, event.model_dump())


lambda_handler = consumer.lambda_handler
