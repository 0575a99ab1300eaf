"""Payment API: the part of Stripe's API that the sandbox implements, without sockets."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from demo.payment_sandbox.charge_book import ChargeBook, ChargeRecord
from demo.payment_sandbox.charge_object import charge_object, payment_intent_object
from demo.payment_sandbox.charging import ChargeEndpoint
from demo.payment_sandbox.errors import RequestRefused, invalid_request, no_api_key, unknown_url
from demo.payment_sandbox.fault_assignment import FaultAssignment
from demo.payment_sandbox.faults import FaultRates
from demo.payment_sandbox.held_requests import HeldRequests
from demo.payment_sandbox.http_messages import Request, Response
from demo.payment_sandbox.idempotency_keys import IdempotencyKeys

_LIST_PARAMETERS = {"transfer_group", "limit"}
_LIMIT, _MOST = 10, 100


class PaymentApi:
    """Answers requests, from any number of threads.

    Args:
        faults: rates of random faults.
        key_lifetime_seconds: lifetime of an idempotency key.
        clock: returns seconds since the epoch.

    Attributes:
        book: the charges.
        assignment: assigns faults to requests.
        holds: the requests that wait.
    """

    def __init__(
        self, faults: FaultRates, key_lifetime_seconds: float, clock: Callable[[], float]
    ) -> None:
        self.book = ChargeBook(clock)
        self.assignment = FaultAssignment(faults)
        self.holds = HeldRequests()
        self._charging = ChargeEndpoint(
            self.book, IdempotencyKeys(key_lifetime_seconds, clock), self.assignment, self.holds
        )

    def answer(self, request: Request) -> Response | None:
        """Return the response; None if the connection is to be closed without one."""
        try:
            return self._route(request)
        except RequestRefused as refused:
            return refused.answer

    def _route(self, request: Request) -> Response | None:
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["sandbox", "charges"]:
                return Response(HTTPStatus.OK, self.book.lines())
            case "POST", ["v1", "payment_intents"]:
                _authorize(request)
                return self._charging.answer(request)
            case "GET", ["v1", "payment_intents", name]:
                _authorize(request)
                return self._payment_intent(name)
            case "GET", ["v1", "charges"]:
                _authorize(request)
                return self._charges(request.query)
        raise unknown_url(request.method, request.path)

    def _payment_intent(self, name: str) -> Response:
        for charge in self.book.charges():
            if charge.payment_intent == name:
                return Response(HTTPStatus.OK, payment_intent_object(charge))
        raise invalid_request(
            f"No such payment_intent: '{name}'",
            status=HTTPStatus.NOT_FOUND,
            code="resource_missing",
            param="intent",
        )

    def _charges(self, query: Mapping[str, str]) -> Response:
        limit = _limit(query)
        found = [charge for charge in reversed(self.book.charges()) if _matches(charge, query)]
        return Response(
            HTTPStatus.OK,
            {
                "object": "list",
                "url": "/v1/charges",
                "has_more": len(found) > limit,
                "data": [charge_object(charge) for charge in found[:limit]],
            },
        )


def _authorize(request: Request) -> None:
    scheme, _, key = request.authorization.partition(" ")
    if scheme != "Bearer" or not key.strip():
        raise no_api_key()


def _limit(query: Mapping[str, str]) -> int:
    # Ignoring an unknown filter or page would return the wrong charges.
    if unknown := sorted(query.keys() - _LIST_PARAMETERS):
        raise invalid_request(f"Received unknown parameter: {unknown[0]}", param=unknown[0])
    limit = query.get("limit", str(_LIMIT))
    if limit not in map(str, range(1, _MOST + 1)):
        raise invalid_request(f"limit: a number from 1 to {_MOST}.", param="limit")
    return int(limit)


def _matches(charge: ChargeRecord, query: Mapping[str, str]) -> bool:
    return charge.transfer_group == query.get("transfer_group", charge.transfer_group)
