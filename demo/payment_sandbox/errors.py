"""Errors in Stripe's shape: `{"error": {"type": …, "message": …}}`."""

from http import HTTPStatus
from typing import Any

from demo.payment_sandbox.http_messages import Answer


class Refused(Exception):
    """A request that is answered with an error before anything is done; nothing is saved."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body["error"]["message"])
        self.answer = answer


def error(status: HTTPStatus, kind: str, message: str, **more: Any) -> Answer:
    """Return an error answer of a Stripe type; `more` are its further fields, such as a code."""
    return Answer(status, {"error": {"type": kind, "message": message, **more}})


def invalid(message: str, *, status: HTTPStatus = HTTPStatus.BAD_REQUEST, **more: Any) -> Refused:
    """Return the refusal of a request that says something wrong."""
    return Refused(error(status, "invalid_request_error", message, **more))


def no_api_key() -> Refused:
    """Return the refusal of a request without `Authorization: Bearer …`."""
    return invalid(
        "You did not provide an API key: send it as 'Authorization: Bearer YOUR_SECRET_KEY'.",
        status=HTTPStatus.UNAUTHORIZED,
    )


def unknown_url(method: str, path: str) -> Refused:
    """Return the refusal of what the sandbox does not offer."""
    return invalid(f"Unrecognized request URL ({method}: {path}).", status=HTTPStatus.NOT_FOUND)


def other_parameters(key: str) -> Refused:
    """Return the refusal of a key that was first used with other parameters."""
    message = (
        "Keys for idempotent requests can only be used with the same parameters they were first "
        f"used with. Try another key than '{key}' if you meant to execute a different request."
    )
    return Refused(error(HTTPStatus.BAD_REQUEST, "idempotency_error", message))


def key_in_use(key: str) -> Refused:
    """Return the refusal of a request whose key another one is executing under."""
    message = f"Another request with the key '{key}' is in progress. Try again in a moment."
    code = "idempotency_key_in_use"
    return Refused(error(HTTPStatus.CONFLICT, "idempotency_error", message, code=code))


def broken(status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR) -> Answer:
    """Return the answer of a provider with a trouble of its own."""
    return error(status, "api_error", "Something went wrong on our side: a fault that was ordered.")


def too_many() -> Answer:
    """Return the answer to a client that is to slow down."""
    message = "Too many requests: a fault that was ordered."
    kind = "invalid_request_error"
    return error(HTTPStatus.TOO_MANY_REQUESTS, kind, message, code="rate_limit")
