"""Sample webhook: a provider's notification, with the data and the bytes of each attempt."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlencode


class Provider(StrEnum):
    """A provider; the value is the path of its endpoint."""

    STRIPE = "stripe"
    GITHUB = "github"
    SHOPIFY = "shopify"
    STANDARD = "standard"


TYPES = {
    Provider.STRIPE: "invoice.paid",
    Provider.GITHUB: "push",
    Provider.SHOPIFY: "orders/paid",
    Provider.STANDARD: "ticket.opened",
}
"""The type that each provider sends."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class SampleWebhook:
    """A webhook as its provider wrote it.

    Attributes:
        provider: the provider.
        serial: a text in the data by which the audit recognizes it.
        id: the provider's id: in the data (Stripe) or in a header.
        data: the JSON object.
        is_form: whether the body is a form with the JSON in its field `payload`. GitHub can be
            configured to send it.
    """

    provider: Provider
    serial: str
    id: str
    data: dict[str, Any]
    is_form: bool = False

    @property
    def content_type(self) -> str:
        """The value of the header Content-Type."""
        return FORM if self.is_form else JSON

    @property
    def body(self) -> bytes:
        """The bytes of the body, in the provider's own writing."""
        if self.provider is Provider.STRIPE:
            return json.dumps(self.data, indent=2).encode()
        written = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return urlencode({"payload": written}).encode() if self.is_form else written.encode()

    @property
    def reserialized(self) -> bytes:
        """Other bytes with the same data, as a proxy that parses and writes the body makes them."""
        written = json.dumps(self.data, sort_keys=True, separators=(", ", ":"))
        return urlencode({"payload": written}).encode() if self.is_form else written.encode()

    @property
    def changed(self) -> Self:
        """The webhook with another amount."""
        return replace(self, data={**self.data, "amount": self.data["amount"] + 1})

    def attempt(self, number: int) -> Self:
        """Return the webhook as its provider sends it for the nth time, counted from 0.

        Stripe writes into each attempt how many endpoints have not taken the event yet.
        """
        if self.provider is not Provider.STRIPE:
            return self
        return replace(self, data={**self.data, "pending_webhooks": max(1, 3 - number)})

    @classmethod
    def sample(cls, provider: Provider, serial: str, amount: int, *, is_form: bool = False) -> Self:
        """Return a webhook; its data has characters that a careless copy would change."""
        webhook_id = f"{_ID_PREFIXES[provider]}{serial}"
        data: dict[str, Any] = {"serial": serial, "amount": amount, "note": "Zoë’s café — 3 × ½\t✓"}
        if provider is Provider.STRIPE:
            data |= {"id": webhook_id, "object": "event", "pending_webhooks": 3}
        if provider in {Provider.STRIPE, Provider.STANDARD}:
            data |= {"type": TYPES[provider]}
        return cls(provider, serial, webhook_id, data, is_form)


_ID_PREFIXES = {
    Provider.STRIPE: "evt_",
    Provider.GITHUB: "delivery-",
    Provider.SHOPIFY: "b54557e4-",
    Provider.STANDARD: "msg_",
}
