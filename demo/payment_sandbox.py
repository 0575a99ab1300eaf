"""Payment sandbox: a local HTTP server with part of Stripe's API, which can inject faults.

In: charges and refunds over HTTP, and fault rates or a script of faults. Out: responses, and a book
of all charges. Without a server, `PaymentSandbox.answer` takes requests directly. No customer ever
confirms a charge that needs it.

Idempotency keys are as Stripe documents them. The first request under a key executes, and its
response is saved, even a 500. A repeated request gets the saved response, a request with other
parameters an error, and a request during the first execution a 409. Rejections before execution
are not saved. Keys expire.
"""

import json
import math
import re
import secrets
import socketserver
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"
_POLL_SECONDS = 0.05
KEY_LIFETIME_SECONDS = 86_400.0
_KEY_LENGTH = 255
_LIST_PARAMETERS, _MOST = {"transfer_group", "limit"}, 100
_REQUIRED = ("amount", "currency", "confirm", "payment_method")
_AMOUNT = re.compile(r"[1-9][0-9]{0,7}")
# Stripe's test tokens say in their name what happens to the card.
_METADATA = re.compile(r"metadata\[(.+)\]")
_DECLINED, _UNCONFIRMED = "chargeDeclined", "authenticationRequired"
_DECLINE = {
    "code": "card_declined",
    "decline_code": "generic_decline",
    "message": "Your card was declined.",
}
_COMMON = ("amount", "created", "currency", "metadata", "transfer_group")


class PaymentFault(StrEnum):
    """A fault of an execution; rejected requests and replays have none.

    Attributes:
        DROP: charged; the connection closes without an answer, which is saved.
        DROP_BEFORE: nothing is done; the connection closes without an answer.
        DELAY: charged, and answered later.
        ERROR_BEFORE: a 500 instead of a charge; it is saved.
        ERROR_AFTER: charged, but answered with a 500, which is saved.
        UNAVAILABLE: a 503; nothing is done or saved.
        RATE_LIMITED: a 429; nothing is done or saved.
        HOLD_BEFORE: held, then charged and answered, even if the client has disconnected.
        HOLD_AFTER: charged, held, then answered.
    """

    DROP = auto()
    DROP_BEFORE = auto()
    DELAY = auto()
    ERROR_BEFORE = auto()
    ERROR_AFTER = auto()
    UNAVAILABLE = auto()
    RATE_LIMITED = auto()
    HOLD_BEFORE = auto()
    HOLD_AFTER = auto()


@dataclass(frozen=True)
class FaultRates:
    """Rates of random faults, which a seed determines.

    Attributes:
        seed: determines the faults together with each request's key, independent of timing.
        shares: share of the executions by fault, from 0 to 1; together at most 1.
        delay_seconds: duration of a DELAY.
        hold_seconds: longest duration of a hold.
        limits: largest number by fault, including scripted ones.
    """

    seed: int = 0
    shares: Mapping[PaymentFault, float] = field(default_factory=dict)
    delay_seconds: float = 0.2
    hold_seconds: float = 10
    limits: Mapping[PaymentFault, int] = field(default_factory=dict)

    def draw(self, idempotency_key: str, nth: int) -> PaymentFault | None:
        """Return the random fault of the nth execution under a key; None is no fault."""
        left = Random(f"{self.seed}/{idempotency_key}/{nth}").random()
        for fault in PaymentFault:
            left -= self.shares.get(fault, 0)
            if left < 0:
                return fault
        return None


_NO_FAULTS = FaultRates()


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, with the parts that the sandbox uses.

    Attributes:
        method: such as `POST`.
        target: the path with its query.
        authorization: the header of that name; empty without one.
        idempotency_key: the header of that name; None without one.
        body: form-encoded, with names such as `metadata[order_id]`.
        client_port: the TCP port that the client sends from.
    """

    method: str
    target: str
    authorization: str
    idempotency_key: str | None
    body: str
    client_port: int

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response: status, JSON body, and whether it is replayed."""

    status: int
    body: Any
    replayed: bool = False


class RequestRefused(Exception):
    """A request that is rejected before execution; its response is not saved."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.body["error"]["message"])
        self.answer = answer


def _error(status: HTTPStatus, kind: str, message: str, **more: Any) -> Response:
    """Return an error in Stripe's shape; `more` are its further fields, such as a code."""
    return Response(status, {"error": {"type": kind, "message": message, **more}})


def _invalid(
    message: str, *, status: HTTPStatus = HTTPStatus.BAD_REQUEST, **more: Any
) -> RequestRefused:
    return RequestRefused(_error(status, "invalid_request_error", message, **more))


def _no_refund(message: str, code: str) -> Response:
    kind = "invalid_request_error"
    return _error(HTTPStatus.BAD_REQUEST, kind, message, code=code, param="charge")


def key_in_use(key: str) -> RequestRefused:
    """Return the rejection of a request whose key is in use by another execution."""
    message = f"Another request with the key '{key}' is in progress. Try again in a moment."
    code = "idempotency_key_in_use"
    return RequestRefused(_error(HTTPStatus.CONFLICT, "idempotency_error", message, code=code))


def server_error(status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR) -> Response:
    """Return an internal error of the provider."""
    return _error(status, "api_error", "Something went wrong on our side: an ordered fault.")


def rate_limited() -> Response:
    """Return the response to a client over its rate limit."""
    message = "Too many requests: a fault that was ordered."
    kind = "invalid_request_error"
    return _error(HTTPStatus.TOO_MANY_REQUESTS, kind, message, code="rate_limit")


_Charge = Mapping[str, Any]
_Act = Callable[[Mapping[str, str], str | None], Response]
"""An operation, which takes a form and an idempotency key."""
_Outcome = tuple[Response | None, Response | None]
"""The response to send and the response to save; None where there is none."""

# Faults after which nothing has been charged.
_UNCHARGED: Mapping[PaymentFault, _Outcome] = {
    PaymentFault.DROP_BEFORE: (None, None),
    PaymentFault.UNAVAILABLE: (server_error(HTTPStatus.SERVICE_UNAVAILABLE), None),
    PaymentFault.RATE_LIMITED: (rate_limited(), None),
    PaymentFault.ERROR_BEFORE: (server_error(), server_error()),
}


@dataclass(frozen=True, eq=False)
class HeldRequest:
    """A charge request that is held until `released` is set.

    The client's TCP port identifies its process.
    """

    client_port: int
    released: threading.Event = field(default_factory=threading.Event, repr=False)


@dataclass(frozen=True, slots=True)
class _KeyUse:
    """First use of a key; without a response it still executes."""

    parameters: Mapping[str, str]
    since: float
    answer: Response | None = None


class PaymentSandbox:
    """The sandbox: its book of charges, its idempotency keys and its faults. Thread-safe.

    Args:
        faults: rates of random faults.
        clock: returns seconds since the epoch.

    Attributes:
        url: where it is served; empty without a server.
        faults: rates of random faults after the script; may be replaced at any time.
        held: the charge requests that are held now, oldest first.
    """

    def __init__(
        self,
        faults: FaultRates = _NO_FAULTS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = ""
        self.faults = faults
        self.held: Queue[HeldRequest] = Queue()
        self._clock = clock
        self._lock = threading.Lock()
        self._book: list[_Charge] = []  # append and copy of a list are atomic
        self._uses: dict[str, _KeyUse] = {}
        self._script: deque[PaymentFault | None] = deque()
        self._executions: Counter[str] = Counter()
        self._fired: Counter[PaymentFault] = Counter()
        self._waiting: set[threading.Event] = set()
        self._ended = False

    def charges(self) -> list[dict[str, Any]]:
        """Return the book: every charge that was made or declined, the oldest first.

        Each has `id`, `payment_intent`, `amount` (in the minor unit), `currency`, `status`
        (`succeeded` or `failed`), `amount_refunded`, `transfer_group`, `metadata`,
        `idempotency_key` and `created` (in seconds since the epoch). The book can be read after the
        sandbox has ended.
        """
        return [dict(charge) for charge in self._book[:]]

    @property
    def fired(self) -> Counter[PaymentFault]:
        """Number of faults by kind."""
        with self._lock:
            return self._fired.copy()

    def script(self, *faults: PaymentFault | None) -> None:
        """Assign these faults to the next executions, in order; None is no fault."""
        with self._lock:
            self._script.extend(faults)

    def end(self) -> None:
        """Release all requests, and let no request wait any more."""
        with self._lock:
            self._ended = True
            for event in self._waiting:
                event.set()

    def answer(self, request: Request) -> Response | None:
        """Return the response; None if the connection is to be closed without one."""
        try:
            return self._route(request)
        except RequestRefused as refused:
            return refused.answer

    def _route(self, request: Request) -> Response | None:
        match request.method, request.path.strip("/").split("/"):
            case "POST", ["v1", "payment_intents"]:
                _authorize(request)
                form = _fields(request.body)
                _check(form)
                return self._once(request, form, self._charge)
            case "POST", ["v1", "refunds"]:
                _authorize(request)
                return self._once(request, _fields(request.body), self._refund)
            case "GET", ["v1", "payment_intents", name]:
                _authorize(request)
                return self._payment_intent(name)
            case "GET", ["v1", "refunds"]:
                _authorize(request)
                query = _fields(urlsplit(request.target).query)
                return self._list_refunds(query.get("charge", ""))
            case "GET", ["v1", "charges"]:
                _authorize(request)
                return self._list_charges(_fields(urlsplit(request.target).query))
        message = f"Unrecognized request URL ({request.method}: {request.path})."
        raise _invalid(message, status=HTTPStatus.NOT_FOUND)

    def _payment_intent(self, name: str) -> Response:
        for charge in self.charges():
            if charge["payment_intent"] == name:
                return Response(HTTPStatus.OK, _intent_object(charge))
        message, status = f"No such payment_intent: '{name}'", HTTPStatus.NOT_FOUND
        raise _invalid(message, status=status, code="resource_missing", param="intent")

    def _list_charges(self, query: Mapping[str, str]) -> Response:
        # Ignoring an unknown filter or page would return the wrong charges.
        if unknown := sorted(query.keys() - _LIST_PARAMETERS):
            raise _invalid(f"Received unknown parameter: {unknown[0]}", param=unknown[0])
        found = [
            _charge_object(charge)
            for charge in reversed(self.charges())
            if charge["transfer_group"] == query.get("transfer_group", charge["transfer_group"])
        ]
        body = {"object": "list", "url": "/v1/charges", "has_more": len(found) > _MOST}
        return Response(HTTPStatus.OK, {**body, "data": found[:_MOST]})

    def _list_refunds(self, charge_id: str) -> Response:
        found = [each for each in self.charges() if each["id"] == charge_id and each["refund"]]
        body = {"object": "list", "url": "/v1/refunds", "has_more": False}
        return Response(HTTPStatus.OK, {**body, "data": [*map(_refund_object, found)]})

    def _once(self, request: Request, form: Mapping[str, str], act: _Act) -> Response | None:
        """Execute once for each key; a request that is rejected before is not saved."""
        key = request.idempotency_key
        if key is not None and len(key) > _KEY_LENGTH:
            raise _invalid(
                f"Idempotency-Key: {len(key)} characters; at most {_KEY_LENGTH} are taken."
            )
        if key is None:
            return self._execute(request, form, act)[0]
        with self._lock:
            if (saved := self._saved(key, form)) is not None:
                return replace(saved, replayed=True)
            use = self._uses[key] = _KeyUse(form, self._clock())
        sent = saved = None
        try:
            sent, saved = self._execute(request, form, act)
        finally:
            with self._lock:
                if saved is None:
                    del self._uses[key]
                else:
                    self._uses[key] = replace(use, answer=saved)
        return sent

    def _saved(self, key: str, form: Mapping[str, str]) -> Response | None:
        use = self._uses.get(key)
        # A key that executes does not expire.
        if use is None or (
            use.answer is not None and self._clock() - use.since > KEY_LIFETIME_SECONDS
        ):
            return None
        if use.parameters != form:
            message = (
                "Keys for idempotent requests can only be used with the same parameters they were "
                f"first used with. Try another key than '{key}' if you meant to execute a "
                "different request."
            )
            raise RequestRefused(_error(HTTPStatus.BAD_REQUEST, "idempotency_error", message))
        if use.answer is None:
            raise key_in_use(key)
        return use.answer

    def _execute(self, request: Request, form: Mapping[str, str], act: _Act) -> _Outcome:
        fault = self._assigned_fault(request.idempotency_key or "")
        if fault is not None and fault in _UNCHARGED:
            return _UNCHARGED[fault]
        if fault is PaymentFault.HOLD_BEFORE:
            self._hold(request.client_port)
        answer = act(form, request.idempotency_key)
        match fault:
            case PaymentFault.DROP:
                return None, answer
            case PaymentFault.ERROR_AFTER:
                return server_error(), server_error()
            case PaymentFault.DELAY:
                self._wait(threading.Event(), self.faults.delay_seconds)
            case PaymentFault.HOLD_AFTER:
                self._hold(request.client_port)
        return answer, answer

    def _assigned_fault(self, key: str) -> PaymentFault | None:
        """Return and count the fault of the next execution: of the script first, then by chance."""
        with self._lock:
            self._executions[key] += 1
            if self._script:
                fault = self._script.popleft()
            else:
                fault = self.faults.draw(key, self._executions[key])
                if fault and self._fired[fault] >= self.faults.limits.get(fault, math.inf):
                    return None
            if fault is not None:
                self._fired[fault] += 1
            return fault

    def _charge(self, form: Mapping[str, str], key: str | None) -> Response:
        """Make or decline a charge, and add it to the book, unless the customer has to confirm."""
        charge = {
            "id": f"ch_{secrets.token_hex(12)}",
            "payment_intent": f"pi_{secrets.token_hex(12)}",
            "amount": int(form["amount"]),
            "currency": form["currency"].lower(),
            "status": "failed" if _DECLINED in form["payment_method"] else "succeeded",
            "amount_refunded": 0,
            "refund": None,
            "transfer_group": form.get("transfer_group"),
            "metadata": _metadata(form),
            "idempotency_key": key,
            "created": int(self._clock()),
        }
        if _UNCONFIRMED in form["payment_method"]:
            waits = {"amount_received": 0, "latest_charge": None, "status": "requires_action"}
            return Response(HTTPStatus.OK, {**_intent_object(charge), **waits})
        self._book.append(charge)
        intent = _intent_object(charge)
        if charge["status"] == "succeeded":
            return Response(HTTPStatus.OK, intent)
        error = {"type": "card_error", **_DECLINE, "charge": charge["id"], "payment_intent": intent}
        return Response(HTTPStatus.PAYMENT_REQUIRED, {"error": error})

    def _refund(self, form: Mapping[str, str], _: str | None) -> Response:
        """Refund the whole amount of a charge, once."""
        name = form.get("charge", "")
        with self._lock:
            charge = next((each for each in self._book if each["id"] == name), None)
            if charge is None or charge["status"] != "succeeded":
                return _no_refund(f"No such charge: '{name}'", "resource_missing")
            if charge["amount_refunded"]:
                return _no_refund(f"Charge {name} was refunded.", "charge_already_refunded")
            made = {"amount_refunded": charge["amount"], "refund": f"re_{secrets.token_hex(12)}"}
            refunded = {**charge, **made}
            self._book[self._book.index(charge)] = refunded
        return Response(HTTPStatus.OK, _refund_object(refunded))

    def _hold(self, client_port: int) -> None:
        held = HeldRequest(client_port)
        self.held.put(held)
        self._wait(held.released, self.faults.hold_seconds)
        # A request still in the queue is removed: its port may be reused by another process.
        with self.held.mutex, suppress(ValueError):
            self.held.queue.remove(held)

    def _wait(self, event: threading.Event, seconds: float) -> None:
        with self._lock:
            if self._ended:
                return
            self._waiting.add(event)
        event.wait(seconds)
        with self._lock:
            self._waiting.discard(event)


def _authorize(request: Request) -> None:
    scheme, _, key = request.authorization.partition(" ")
    if scheme != "Bearer" or not key.strip():
        raise _invalid(
            "You did not provide an API key: send it as 'Authorization: Bearer YOUR_SECRET_KEY'.",
            status=HTTPStatus.UNAUTHORIZED,
        )


def _check(form: Mapping[str, str]) -> None:
    for name in _REQUIRED:
        if not form.get(name):
            code = "parameter_missing"
            raise _invalid(f"Missing required param: {name}.", code=code, param=name)
    if not _AMOUNT.fullmatch(form["amount"]):
        message = "amount: a positive integer of at most eight digits."
        raise _invalid(message, param="amount")


def _fields(encoded: str) -> dict[str, str]:
    return dict(parse_qsl(encoded, keep_blank_values=True))


def _metadata(form: Mapping[str, str]) -> dict[str, str]:
    named = {name: _METADATA.fullmatch(name) for name in form}
    return {match[1]: form[name] for name, match in named.items() if match}


def _charge_object(charge: _Charge) -> dict[str, Any]:
    """Return Stripe's Charge, with the fields that clients of the sandbox read."""
    paid = charge["status"] == "succeeded"
    return {
        **{name: charge[name] for name in ("id", "payment_intent", "status", *_COMMON)},
        "object": "charge",
        "livemode": False,
        "amount_captured": charge["amount"] if paid else 0,
        "captured": paid,
        "failure_code": None if paid else _DECLINE["code"],
        "failure_message": None if paid else _DECLINE["message"],
        "paid": paid,
        "amount_refunded": charge["amount_refunded"],
        "refunded": bool(charge["amount_refunded"]),
    }


def _refund_object(charge: _Charge) -> dict[str, Any]:
    made = {"id": charge["refund"], "object": "refund", "status": "succeeded"}
    return {**made, "charge": charge["id"], "amount": charge["amount_refunded"]}


def _intent_object(charge: _Charge) -> dict[str, Any]:
    """Return Stripe's PaymentIntent; a declined one requires another payment method."""
    paid = charge["status"] == "succeeded"
    return {
        "id": charge["payment_intent"],
        **{name: charge[name] for name in _COMMON},
        "object": "payment_intent",
        "livemode": False,
        "amount_received": charge["amount"] if paid else 0,
        "last_payment_error": None if paid else {"type": "card_error", **_DECLINE},
        "latest_charge": charge["id"],
        "status": "succeeded" if paid else "requires_payment_method",
    }


@contextmanager
def payment_sandbox(
    faults: FaultRates = _NO_FAULTS,
    *,
    clock: Callable[[], float] = time.time,
) -> Iterator[PaymentSandbox]:
    """Serve a sandbox on a free port of 127.0.0.1 until the context ends; see `PaymentSandbox`.

    Its threads and connections end with the context.
    """
    sandbox = PaymentSandbox(faults, clock)
    server = _Server(sandbox)
    sandbox.url = f"http://{HOST}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=[_POLL_SECONDS])
    thread.start()
    try:
        yield sandbox
    finally:
        sandbox.end()
        server.shutdown()
        thread.join()
        server.server_close()  # waits for the responses in progress


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # `server_close` waits for these alone
    request_queue_size = 128

    def __init__(self, sandbox: PaymentSandbox) -> None:
        self.sandbox = sandbox
        super().__init__((HOST, 0), _Handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of the host's name, which may take seconds offline."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients; report every other error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request: a connection that stays open would keep its thread after the end."""

    server: _Server
    protocol_version = "HTTP/1.1"
    # Otherwise the body waits for the acknowledgement of the headers.
    disable_nagle_algorithm = True
    timeout = 60  # in seconds; a client that neither sends nor reads does not keep its thread

    def do_GET(self) -> None:
        """Respond to a request."""
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        if len(content) < length:
            # An incomplete request must not be executed.
            raise ConnectionAbortedError(f"the client left after {len(content)} of {length} bytes")
        answer = self.server.sandbox.answer(
            Request(
                method=self.command,
                target=self.path,
                authorization=self.headers.get("Authorization") or "",
                idempotency_key=self.headers.get("Idempotency-Key") or None,
                body=content.decode(errors="replace"),
                client_port=self.client_address[1],
            )
        )
        self.close_connection = True
        if answer is None:
            return
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Request-Id", f"req_{secrets.token_hex(7)}")
        if answer.replayed:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is http.server's

    def log_message(self, *_: Any) -> None:
        """Log nothing: the book records all charges."""
