"""Services outside of AWS's data stores: the payment provider, e-mail and the secret."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from demo.payment_sandbox import PaymentSandbox, Request, Response, key_in_use

SECRET = "sk_test_world"  # noqa: S105
_PROCESSED = "pm_processed"
"""Part of a payment method whose charge is answered before Stripe knows the outcome."""


class Provider:
    """The payment sandbox, with requests that are executed later.

    Args:
        clock: returns seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.api = PaymentSandbox(clock=clock)
        self._executing: set[str] = set()

    def answer(self, request: Request) -> Response:
        """Execute a request; it is in conflict with a late one of the same key."""
        if request.idempotency_key in self._executing:
            return key_in_use(request.idempotency_key).answer
        answer = self.api.answer(request)
        assert answer is not None  # noqa: S101
        if _PROCESSED in request.body and answer.body.get("status") == "succeeded":
            return replace(answer, body=answer.body | {"status": "processing"})
        return answer

    def begin(self, request: Request) -> Callable[[], object]:
        """Accept a late request, and return the function that executes it."""
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
        """The idempotency keys in use, and the saved response of each."""
        uses = self.api._uses  # noqa: SLF001
        return f"{sorted(uses.items(), key=repr)} {sorted(self._executing)}"

    def charged(self) -> Counter[str]:
        """Return the number of charges of each order."""
        made = [each for each in self.api.charges() if each["status"] == "succeeded"]
        return Counter(charge["metadata"]["order_id"] for charge in made)


class Mail:
    """The number of e-mails sent, by recipient and subject."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Send an e-mail."""
        [to] = request["Destination"]["ToAddresses"]
        self.sent[to, request["Content"]["Simple"]["Subject"]["Data"]] += 1
        return {"MessageId": "e-mail"}
