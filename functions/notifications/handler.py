"""Informs a customer by e-mail of the end of an order, at most once: SES has no idempotency key.

If it is unknown whether a message was sent, it is not sent again. The event is dead-lettered as
`effect-unknown`, and a person decides. This is the price of the policy.
"""

from decimal import Decimal

from msgspec import Struct

from functions.notifications import mail
from once import Call, Consumer, Key, Policy, Transaction

consumer = Consumer("notifications")
NOTIFICATIONS = consumer.table("notifications")
DECIMALS = {"JPY": 0, "KRW": 0}
"""Currencies whose minor unit is no hundredth."""


class PaymentEnded(Struct, frozen=True):
    """A payment has ended. `amount` is in minor units of the currency."""

    order_id: str
    email: str
    currency: str
    amount: int


class StockRefused(Struct, frozen=True):
    """An order cannot be delivered."""

    order_id: str
    email: str


class Message(Struct, frozen=True):
    """An e-mail."""

    to: str
    subject: str
    text: str


class Sent(Struct, frozen=True):
    """SES has taken the message."""

    message_id: str


@consumer.effect("email", Message, policy=Policy.AT_MOST_ONCE)
def send(request: Message, call: Call) -> Sent:
    """Send the message."""
    return Sent(mail.send(to=request.to, subject=request.subject, text=request.text, call=call))


@consumer.handles("payment.captured", PaymentEnded, key=Key.field("order_id"))
def receipt(event: PaymentEnded, tx: Transaction) -> None:
    """Confirm the payment of an order."""
    amount = Decimal(event.amount).scaleb(-DECIMALS.get(event.currency, 2))
    text = f"Thank you. We have received {amount} {event.currency} for your order {event.order_id}."
    tx.perform(send, Message(event.email, f"Your order {event.order_id}", text))


@consumer.handles("payment.declined", PaymentEnded, key=Key.field("order_id"))
def apologise_for_the_card(event: PaymentEnded, tx: Transaction) -> None:
    """Inform the customer of a declined card."""
    text = f"Your card was declined, and your order {event.order_id} is cancelled. We are sorry."
    tx.perform(send, Message(event.email, f"Your order {event.order_id}", text))


@consumer.handles("order.cancelled", PaymentEnded, key=Key.field("order_id"))
def tell_of_the_end(event: PaymentEnded, tx: Transaction) -> None:
    """Inform the customer of an order that was not paid in time."""
    text = f"We have not received your payment in time: your order {event.order_id} is cancelled."
    tx.perform(send, Message(event.email, f"Your order {event.order_id}", text))


@consumer.handles("stock.refused", StockRefused, key=Key.field("order_id"))
def apologise_for_the_stock(event: StockRefused, tx: Transaction) -> None:
    """Inform the customer of an article that is out of stock."""
    text = f"Your order {event.order_id} asks for more than we have in stock. We are sorry."
    tx.perform(send, Message(event.email, f"Your order {event.order_id}", text))


@consumer.completes(send)
def sent(event: PaymentEnded | StockRefused, outcome: Sent, tx: Transaction) -> None:
    """Store SES's id of the message."""
    tx.put(NOTIFICATIONS, {"order_id": event.order_id, "message_id": outcome.message_id})


lambda_handler = consumer.lambda_handler
