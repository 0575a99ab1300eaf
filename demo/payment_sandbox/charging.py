"""Charge endpoint: executes charge requests under idempotency keys, with injected faults."""

from http import HTTPStatus

from demo.payment_sandbox.charge_book import ChargeBook
from demo.payment_sandbox.charge_object import decline_details, payment_intent_object
from demo.payment_sandbox.charge_request import ChargeRequest
from demo.payment_sandbox.errors import invalid_request, rate_limited, server_error
from demo.payment_sandbox.fault_assignment import FaultAssignment
from demo.payment_sandbox.faults import PaymentFault
from demo.payment_sandbox.held_requests import HeldRequest, HeldRequests
from demo.payment_sandbox.http_messages import Request, Response
from demo.payment_sandbox.idempotency_keys import ExecutionResult, IdempotencyKeys

_KEY_LENGTH = 255

# Faults after which nothing has been charged.
_UNCHARGED = {
    PaymentFault.DROP_BEFORE: ExecutionResult(),
    PaymentFault.UNAVAILABLE: ExecutionResult(sent=server_error(HTTPStatus.SERVICE_UNAVAILABLE)),
    PaymentFault.RATE_LIMITED: ExecutionResult(sent=rate_limited()),
    PaymentFault.ERROR_BEFORE: ExecutionResult.of(server_error()),
}


class ChargeEndpoint:
    """Handles `POST /v1/payment_intents`."""

    def __init__(
        self,
        book: ChargeBook,
        keys: IdempotencyKeys,
        assignment: FaultAssignment,
        holds: HeldRequests,
    ) -> None:
        self._book = book
        self._keys = keys
        self._assignment = assignment
        self._holds = holds

    def answer(self, request: Request) -> Response | None:
        """Charge once for each key; return None if no response is to be sent.

        Raises:
            RequestRefused: the parameters or the key are invalid; nothing is charged or saved.
        """
        key, form = request.idempotency_key, request.form
        if key is not None and len(key) > _KEY_LENGTH:
            raise invalid_request(
                f"Idempotency-Key: {len(key)} characters; at most {_KEY_LENGTH} are taken."
            )
        payment = ChargeRequest.read(form)
        if key is None:
            return self._execute(request, payment).sent
        return self._keys.execute_once(key, form, lambda: self._execute(request, payment))

    def _execute(self, request: Request, payment: ChargeRequest) -> ExecutionResult:
        fault = self._assignment.assign(request.idempotency_key)
        if fault in _UNCHARGED:
            return _UNCHARGED[fault]
        if fault is PaymentFault.HOLD_BEFORE:
            self._hold(request, payment, charged=False)
        outcome = ExecutionResult.of(self._charge(request, payment))
        match fault:
            case PaymentFault.DROP:
                return ExecutionResult(saved=outcome.saved)
            case PaymentFault.ERROR_AFTER:
                return ExecutionResult.of(server_error())
            case PaymentFault.DELAY:
                self._holds.pause(self._assignment.faults.delay_seconds)
            case PaymentFault.HOLD_AFTER:
                self._hold(request, payment, charged=True)
        return outcome

    def _charge(self, request: Request, payment: ChargeRequest) -> Response:
        charge = self._book.record(payment, request.idempotency_key)
        if charge.succeeded:
            return Response(HTTPStatus.OK, payment_intent_object(charge))
        body = {"error": {"type": "card_error", **decline_details(charge)}}
        return Response(HTTPStatus.PAYMENT_REQUIRED, body)

    def _hold(self, request: Request, payment: ChargeRequest, *, charged: bool) -> None:
        held = HeldRequest(request.client_port, payment.metadata, charged)
        self._holds.hold(held, self._assignment.faults.hold_seconds)
