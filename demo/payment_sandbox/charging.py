"""One charge request from its parameters to its answer, through the fault that it meets."""

from http import HTTPStatus

from demo.payment_sandbox.charge_book import Book
from demo.payment_sandbox.charge_object import decline, payment_intent_object
from demo.payment_sandbox.charge_request import Payment
from demo.payment_sandbox.errors import broken, invalid, too_many
from demo.payment_sandbox.fault_assignment import Dealer
from demo.payment_sandbox.faults import Fault
from demo.payment_sandbox.held_requests import Held, Holds
from demo.payment_sandbox.http_messages import Answer, Request
from demo.payment_sandbox.idempotency_keys import Keys, Outcome

_KEY_LENGTH = 255

# Faults after which nothing has been charged.
_UNCHARGED = {
    Fault.DROP_BEFORE: Outcome(),
    Fault.UNAVAILABLE: Outcome(sent=broken(HTTPStatus.SERVICE_UNAVAILABLE)),
    Fault.RATE_LIMITED: Outcome(sent=too_many()),
    Fault.ERROR_BEFORE: Outcome.of(broken()),
}


class Charging:
    """Answers `POST /v1/payment_intents`."""

    def __init__(self, book: Book, keys: Keys, dealer: Dealer, holds: Holds) -> None:
        self._book = book
        self._keys = keys
        self._dealer = dealer
        self._holds = holds

    def answer(self, request: Request) -> Answer | None:
        """Charge once for each key; None is no answer at all.

        Raises:
            Refused: the parameters or the key are not acceptable; nothing is done or saved.
        """
        key, form = request.idempotency_key, request.form
        if key is not None and len(key) > _KEY_LENGTH:
            raise invalid(
                f"Idempotency-Key: {len(key)} characters; at most {_KEY_LENGTH} are taken."
            )
        payment = Payment.read(form)
        if key is None:
            return self._execute(request, payment).sent
        return self._keys.once(key, form, lambda: self._execute(request, payment))

    def _execute(self, request: Request, payment: Payment) -> Outcome:
        fault = self._dealer.deal(request.idempotency_key)
        if fault in _UNCHARGED:
            return _UNCHARGED[fault]
        if fault is Fault.HOLD_BEFORE:
            self._hold(request, payment, charged=False)
        outcome = Outcome.of(self._charge(request, payment))
        match fault:
            case Fault.DROP:
                return Outcome(saved=outcome.saved)
            case Fault.ERROR_AFTER:
                return Outcome.of(broken())
            case Fault.DELAY:
                self._holds.pause(self._dealer.faults.delay_seconds)
            case Fault.HOLD_AFTER:
                self._hold(request, payment, charged=True)
        return outcome

    def _charge(self, request: Request, payment: Payment) -> Answer:
        charge = self._book.enter(payment, request.idempotency_key)
        if charge.succeeded:
            return Answer(HTTPStatus.OK, payment_intent_object(charge))
        body = {"error": {"type": "card_error", **decline(charge)}}
        return Answer(HTTPStatus.PAYMENT_REQUIRED, body)

    def _hold(self, request: Request, payment: Payment, *, charged: bool) -> None:
        held = Held(request.client_port, payment.metadata, charged)
        self._holds.hold(held, self._dealer.faults.hold_seconds)
