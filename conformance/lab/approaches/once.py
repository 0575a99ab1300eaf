"""Once: the dedup record and the order in one transaction, the charge as an effect.

Advised by: this project, `docs/effects.md`.
Promises: DynamoDB changes once for each event. The card is charged once, because the provider
remembers the idempotency key and the charge is never repeated after it may have forgotten.
Leaves out, in its own words: a charge whose outcome stays unknown for longer than the provider
remembers its key. It is dead-lettered for a person, neither repeated nor dropped.
"""

from msgspec import Struct

from lab.approaches.checkout import charge
from once import Call, Consumer, Policy, Transaction

consumer = Consumer("orders")
ORDERS = consumer.table("orders")


class OrderPlaced(Struct, frozen=True):
    """An order. `amount` is in minor units of the currency."""

    order_id: str
    customer_id: str
    amount: int


class Charge(Struct, frozen=True):
    """The request to the provider, the same in every attempt."""

    order_id: str
    amount: int


@consumer.effect("charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=23 * 3600)
def charge_card(request: Charge, call: Call) -> str:
    """Charge the card, with the key that stays the same in every attempt."""
    return charge(
        request.order_id,
        request.amount,
        idempotency_key=call.key,
        timeout_seconds=call.timeout_seconds / 2,
    )


@consumer.handles("order.placed", OrderPlaced)
def place(event: OrderPlaced, tx: Transaction) -> None:
    """Request the charge of an order."""
    tx.perform(charge_card, Charge(event.order_id, event.amount))


@consumer.completes(charge_card)
def charged(event: OrderPlaced, charge_id: str, tx: Transaction) -> None:
    """Store the order with its charge."""
    item = {"order_id": event.order_id, "amount": event.amount, "charge_id": charge_id}
    tx.put(ORDERS, item)


lambda_handler = consumer.lambda_handler
