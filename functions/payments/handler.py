"""Charges the card of an order whose stock is reserved, at most once."""

from msgspec import Struct

from functions.payments import provider
from once import Call, Consumer, Key, Policy, Refusal, Transaction

consumer = Consumer("payments")
PAYMENTS = consumer.table("payments")

KEY_LIFETIME_SECONDS = 23 * 60 * 60
"""Stripe forgets a key after 24 hours at the earliest; an hour is kept as a margin."""


class StockReserved(Struct, frozen=True):
    """The stock of an order is reserved. `amount` is in minor units of the currency."""

    order_id: str
    email: str
    payment_method: str
    currency: str
    amount: int


class Charge(Struct, frozen=True):
    """The request to the provider. Every attempt is made with the same bytes."""

    order_id: str
    payment_method: str
    currency: str
    amount: int


class Captured(Struct, frozen=True):
    """The card was charged."""

    charge_id: str


class PaymentEnded(Struct, frozen=True):
    """The end of a payment, as other consumers read it."""

    order_id: str
    email: str
    currency: str
    amount: int


class Declined(Refusal):
    """The customer's bank or the provider has declined. This outcome is final."""


@consumer.effect(
    "charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=KEY_LIFETIME_SECONDS
)
def charge(request: Charge, call: Call) -> Captured:
    """Charge the card."""
    return _captured(
        provider.charge(
            amount=request.amount,
            currency=request.currency,
            payment_method=request.payment_method,
            order_id=request.order_id,
            call=call,
        )
    )


@charge.looks_up
def find_charge(request: Charge, call: Call) -> Captured | None:
    """Find the charge of an attempt that Stripe remembers as an error."""
    found = provider.find_charge(order_id=request.order_id, call=call)
    return None if found is None else _captured(found)


@consumer.handles("stock.reserved", StockReserved, key=Key.field("order_id"))
def pay(event: StockReserved, tx: Transaction) -> None:
    """Request one payment for each order: the order id is the key, for any event."""
    tx.perform(charge, Charge(event.order_id, event.payment_method, event.currency, event.amount))


@consumer.completes(charge)
def captured(event: StockReserved, outcome: Captured, tx: Transaction) -> None:
    """Store the charge, and publish it."""
    tx.put(PAYMENTS, {**_payment(event), "status": "captured", "charge_id": outcome.charge_id})
    tx.publish("payment.captured", _ended(event), subject=event.order_id)


@consumer.rejects(Declined)
def declined(event: StockReserved, refusal: Declined, tx: Transaction) -> None:
    """Store the reason of the decline, and publish it."""
    tx.put(PAYMENTS, {**_payment(event), "status": "declined", "decline_code": str(refusal)})
    tx.publish("payment.declined", _ended(event), subject=event.order_id)


def _captured(result: provider.Result) -> Captured:
    if not result.paid:
        raise Declined(result.decline_code)
    return Captured(result.charge_id)


def _payment(event: StockReserved) -> dict[str, str | int]:
    return {"order_id": event.order_id, "amount": event.amount, "currency": event.currency}


def _ended(event: StockReserved) -> PaymentEnded:
    return PaymentEnded(event.order_id, event.email, event.currency, event.amount)


lambda_handler = consumer.lambda_handler
