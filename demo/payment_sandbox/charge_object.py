"""Stripe's objects Charge and PaymentIntent, with the fields that clients of the sandbox read."""

from typing import Any

from demo.payment_sandbox.charge_book import ChargeRecord

_DECLINE = {
    "code": "card_declined",
    "decline_code": "generic_decline",
    "message": "Your card was declined.",
}


def charge_object(charge: ChargeRecord) -> dict[str, Any]:
    """Return Stripe's Charge."""
    return {
        "id": charge.id,
        "object": "charge",
        **_common(charge),
        "amount_captured": charge.amount if charge.succeeded else 0,
        "captured": charge.succeeded,
        "failure_code": None if charge.succeeded else _DECLINE["code"],
        "failure_message": None if charge.succeeded else _DECLINE["message"],
        "paid": charge.succeeded,
        "payment_intent": charge.payment_intent,
        "refunded": False,
        "status": charge.status,
    }


def payment_intent_object(charge: ChargeRecord) -> dict[str, Any]:
    """Return Stripe's PaymentIntent; a declined one requires another payment method."""
    return {
        "id": charge.payment_intent,
        "object": "payment_intent",
        **_common(charge),
        "amount_received": charge.amount if charge.succeeded else 0,
        "last_payment_error": None if charge.succeeded else {"type": "card_error", **_DECLINE},
        "latest_charge": charge.id,
        "status": "succeeded" if charge.succeeded else "requires_payment_method",
    }


def decline_details(charge: ChargeRecord) -> dict[str, Any]:
    """Return the fields of a card error, except its type."""
    return {**_DECLINE, "charge": charge.id, "payment_intent": payment_intent_object(charge)}


def _common(charge: ChargeRecord) -> dict[str, Any]:
    return {
        "amount": charge.amount,
        "created": charge.created,
        "currency": charge.currency,
        "livemode": False,
        "metadata": charge.metadata,
        "transfer_group": charge.transfer_group,
    }
