"""The outside world: the payment provider, the e-mail service and the secret between them."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from demo.payment_sandbox.api import PaymentApi
from demo.payment_sandbox.errors import key_in_use
from demo.payment_sandbox.faults import FaultRates
from demo.payment_sandbox.http_messages import Request, Response

KEY_LIFETIME_SECONDS = 24 * 60 * 60
_PROCESSED = "pm_processed"
"""In the name of a payment method: its charge is answered before Stripe knows what comes of it."""
SECRET = "sk_test_world"  # noqa: S105


class Provider:
    """The project's sandbox of Stripe, and requests that are still under way in it.

    Args:
        clock: the time, in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.api = PaymentApi(FaultRates(), KEY_LIFETIME_SECONDS, clock)
        self._executing: set[str] = set()

    def answer(self, request: Request) -> Response:
        """Do a request, unless one under its key is still under way."""
        if request.idempotency_key in self._executing:
            return key_in_use(request.idempotency_key).answer
        answer = self.api.answer(request)
        assert answer is not None  # noqa: S101
        return _not_known_yet(answer) if _PROCESSED in request.body else answer

    def begin(self, request: Request) -> Callable[[], object]:
        """Take a request that is done later; return what does it."""
        key = request.idempotency_key
        if key is None or key in self._executing:
            return lambda: None
        self._executing.add(key)

        def finish() -> None:
            self._executing.discard(key)
            self.api.answer(request)

        return finish

    @property
    def keys(self) -> str:
        """Return the idempotency keys in use and under way, and what is saved under each."""
        uses = self.api._charging._keys._uses  # noqa: SLF001
        return f"{sorted(uses.items(), key=repr)} {sorted(self._executing)}"

    def charged(self) -> Counter[str]:
        """Return how often each order was charged."""
        charges = [charge for charge in self.api.book.charges() if charge.succeeded]
        return Counter(charge.metadata["order_id"] for charge in charges)


class Mail:
    """The e-mails that were sent: their recipient and subject, and how often."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Send an e-mail."""
        [to] = request["Destination"]["ToAddresses"]
        self.sent[to, request["Content"]["Simple"]["Subject"]["Data"]] += 1
        return {"MessageId": "e-mail"}


def _not_known_yet(answer: Response) -> Response:
    if answer.body.get("status") != "succeeded":
        return answer
    return replace(answer, body=answer.body | {"status": "processing"})
