"""The payment of an order whose stock is reserved, as a process: it ends once, and in time.

One item for each order holds the state of its process. Every step reads the item, and commits only
if it has not changed since. A capture and the end of the time to pay may come at the same moment:
one of them commits, and the other one then finds the end that it has to respect.

    (no item) → captured, declined or cancelled
    (no item) → waiting for the customer → captured or cancelled
"""

from typing import Any

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


class Charged(Struct, frozen=True):
    """The card was charged; without an id, the customer has to confirm the payment first."""

    charge_id: str | None


class Payment(Struct, frozen=True):
    """A payment, as the events of its ends have it. `amount` is in minor units of the currency."""

    order_id: str
    email: str
    currency: str
    amount: int


class Intent(Struct, frozen=True):
    """A payment intent of Stripe that has succeeded."""

    latest_charge: str
    metadata: dict[str, str]


class IntentData(Struct, frozen=True):
    """The part of Stripe's webhook that holds the intent."""

    object: Intent


class IntentSucceeded(Struct, frozen=True):
    """Stripe has charged a card, which for some had to wait for the customer."""

    data: IntentData


class RefundAsked(Struct, frozen=True):
    """A charge that was made for a cancelled order."""

    order_id: str
    charge_id: str


class Refunded(Struct, frozen=True):
    """The whole amount goes back to the customer."""

    refund_id: str


class Declined(Refusal):
    """The customer's bank or the provider has declined. This outcome is final."""


@consumer.effect(
    "charge", Charge, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=KEY_LIFETIME_SECONDS
)
def charge(request: Charge, call: Call) -> Charged:
    """Charge the card."""
    return _charged(
        provider.charge(
            amount=request.amount,
            currency=request.currency,
            payment_method=request.payment_method,
            order_id=request.order_id,
            call=call,
        )
    )


@charge.looks_up
def find_charge(request: Charge, call: Call) -> Charged | None:
    """Find the charge of an attempt that Stripe remembers as an error."""
    found = provider.find_charge(order_id=request.order_id, call=call)
    return None if found is None else _charged(found)


@consumer.effect(
    "refund", RefundAsked, policy=Policy.PROVIDER_KEY, key_lifetime_seconds=KEY_LIFETIME_SECONDS
)
def refund(request: RefundAsked, call: Call) -> Refunded:
    """Refund the charge."""
    return Refunded(provider.refund(charge_id=request.charge_id, call=call))


@refund.looks_up
def find_refund(request: RefundAsked, call: Call) -> Refunded | None:
    """Find the refund of an attempt that Stripe remembers as an error."""
    found = provider.find_refund(charge_id=request.charge_id, call=call)
    return None if found is None else Refunded(found)


@consumer.handles("stock.reserved", StockReserved, key=Key.field("order_id"))
def pay(event: StockReserved, tx: Transaction) -> None:
    """Request one payment for each order: the order id is the key, for any event."""
    if not _process(event.order_id, tx):  # else its time to pay is over
        card = event.payment_method
        tx.perform(charge, Charge(event.order_id, card, event.currency, event.amount))


@consumer.completes(charge)
def charged(event: StockReserved, outcome: Charged, tx: Transaction) -> None:
    """End the process as captured, or let it wait for the customer."""
    payment = Payment(event.order_id, event.email, event.currency, event.amount)
    if outcome.charge_id is not None:
        _capture(payment, outcome.charge_id, tx)
    elif not _process(event.order_id, tx):
        _write(payment, "waiting", tx)


@consumer.rejects(Declined)
def declined(event: StockReserved, refusal: Declined, tx: Transaction) -> None:
    """Store the reason of the decline, and publish it."""
    if not _process(event.order_id, tx):
        payment = Payment(event.order_id, event.email, event.currency, event.amount)
        _write(payment, "declined", tx, decline_code=str(refusal))
        tx.publish("payment.declined", payment, subject=event.order_id)


@consumer.handles("stripe.payment_intent.succeeded", IntentSucceeded)
def confirmed(event: IntentSucceeded, tx: Transaction) -> None:
    """End the process of a customer who has confirmed the payment."""
    intent = event.data.object
    process = _process(intent.metadata["order_id"], tx)
    if process:  # else the charge itself is about to commit its outcome
        _capture(_payment(process), intent.latest_charge, tx)


@consumer.handles("payment.overdue", Payment)
def cancel(event: Payment, tx: Transaction) -> None:
    """The time to pay is over: cancel an order that is neither paid nor declined."""
    if _process(event.order_id, tx).get("status", "waiting") == "waiting":
        _write(event, "cancelled", tx)
        tx.publish("order.cancelled", event, subject=event.order_id)


@consumer.handles("refund.asked", RefundAsked, key=Key.field("charge_id"))
def give_back(event: RefundAsked, tx: Transaction) -> None:
    """Refund a charge that came too late."""
    tx.perform(refund, event)


@consumer.completes(refund)
def given_back(event: RefundAsked, outcome: Refunded, tx: Transaction) -> None:
    """Store Stripe's id of the refund."""
    tx.update(PAYMENTS, {"order_id": event.order_id}, set={"refund_id": outcome.refund_id})


def _capture(payment: Payment, charge_id: str, tx: Transaction) -> None:
    """End the process as captured; if it has ended as cancelled, ask for a refund."""
    status = _process(payment.order_id, tx).get("status", "waiting")
    if status == "waiting":
        _write(payment, "captured", tx, charge_id=charge_id)
        tx.publish("payment.captured", payment, subject=payment.order_id)
    elif status == "cancelled":
        tx.update(PAYMENTS, {"order_id": payment.order_id}, set={"charge_id": charge_id})
        asked = RefundAsked(payment.order_id, charge_id)
        tx.publish("refund.asked", asked, subject=payment.order_id)


def _process(order_id: str, tx: Transaction) -> dict[str, Any]:
    """Return the state of an order's process; empty before its first step."""
    return tx.get(PAYMENTS, {"order_id": order_id}) or {}


def _write(payment: Payment, status: str, tx: Transaction, **more: str) -> None:
    tx.put(
        PAYMENTS,
        {
            "order_id": payment.order_id,
            "email": payment.email,
            "amount": payment.amount,
            "currency": payment.currency,
            "status": status,
            **more,
        },
    )


def _payment(process: dict[str, Any]) -> Payment:
    amount = int(process["amount"])  # DynamoDB returns decimals
    return Payment(process["order_id"], process["email"], process["currency"], amount)


def _charged(result: provider.Result) -> Charged:
    if result.unconfirmed:
        return Charged(None)
    if not result.paid:
        raise Declined(result.decline_code)
    return Charged(result.charge_id)


lambda_handler = consumer.lambda_handler
