"""Charge request: its parameters, parsed and validated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from demo.payment_sandbox.errors import invalid_request

# Stripe takes up to eight digits. Its test tokens say in their name what happens to the card.
_AMOUNT = re.compile(r"[1-9][0-9]{0,7}")
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_METADATA = re.compile(r"metadata\[(.+)\]")
_DECLINED = "chargeDeclined"


@dataclass(frozen=True, slots=True)
class ChargeRequest:
    """Parameters of a charge; `amount` is in the currency's minor unit."""

    amount: int
    currency: str
    is_declined: bool
    transfer_group: str | None
    metadata: Mapping[str, str]

    @classmethod
    def read(cls, form: Mapping[str, str]) -> Self:
        """Read the parameters of `POST /v1/payment_intents`; unused ones are ignored.

        Raises:
            RequestRefused: a required parameter is missing or invalid.
        """
        _check(form)
        return cls(
            amount=int(form["amount"]),
            currency=form["currency"].lower(),
            is_declined=_DECLINED in form["payment_method"],
            transfer_group=form.get("transfer_group"),
            metadata=_metadata(form),
        )


def _check(form: Mapping[str, str]) -> None:
    for name in ("amount", "currency", "confirm", "payment_method"):
        if not form.get(name):
            raise invalid_request(
                f"Missing required param: {name}.", code="parameter_missing", param=name
            )
    if not _AMOUNT.fullmatch(form["amount"]):
        raise invalid_request("amount: a positive integer of at most eight digits.", param="amount")
    if not _CURRENCY.fullmatch(form["currency"]):
        raise invalid_request("currency: a three-letter ISO code, such as 'eur'.", param="currency")
    if form["confirm"] != "true":
        raise invalid_request(
            "confirm: must be true; the sandbox charges at once.", param="confirm"
        )


def _metadata(form: Mapping[str, str]) -> dict[str, str]:
    named = {name: _METADATA.fullmatch(name) for name in form}
    return {match[1]: form[name] for name, match in named.items() if match}
