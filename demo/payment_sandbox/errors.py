"""Errors in Stripe's shape: `{"error": {"type": …, "message": …}}`."""

from http import HTTPStatus
from typing import Any

from demo.payment_sandbox.http_messages import Response


class RequestRefused(Exception):
    """A request that is rejected before execution; its response is not saved."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.body["error"]["message"])
        self.answer = answer


def _error_response(status: HTTPStatus, kind: str, message: str, **more: Any) -> Response:
    """Return an error answer of a Stripe type; `more` are its further fields, such as a code."""
    return Response(status, {"error": {"type": kind, "message": message, **more}})


def invalid_request(
    message: str, *, status: HTTPStatus = HTTPStatus.BAD_REQUEST, **more: Any
) -> RequestRefused:
    """Return the rejection of an invalid request."""
    return RequestRefused(_error_response(status, "invalid_request_error", message, **more))


def no_api_key() -> RequestRefused:
    """Return the rejection of a request without `Authorization: Bearer …`."""
    return invalid_request(
        "You did not provide an API key: send it as 'Authorization: Bearer YOUR_SECRET_KEY'.",
        status=HTTPStatus.UNAUTHORIZED,
    )


def unknown_url(method: str, path: str) -> RequestRefused:
    """Return the rejection of an unknown method or path."""
    return invalid_request(
        f"Unrecognized request URL ({method}: {path}).", status=HTTPStatus.NOT_FOUND
    )


def key_reused(key: str) -> RequestRefused:
    """Return the rejection of a key that was first used with other parameters."""
    message = (
        "Keys for idempotent requests can only be used with the same parameters they were first "
        f"used with. Try another key than '{key}' if you meant to execute a different request."
    )
    return RequestRefused(_error_response(HTTPStatus.BAD_REQUEST, "idempotency_error", message))


def key_in_use(key: str) -> RequestRefused:
    """Return the rejection of a request whose key is in use by another execution."""
    message = f"Another request with the key '{key}' is in progress. Try again in a moment."
    code = "idempotency_key_in_use"
    return RequestRefused(
        _error_response(HTTPStatus.CONFLICT, "idempotency_error", message, code=code)
    )


def server_error(status: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR) -> Response:
    """Return an internal error of the provider."""
    return _error_response(
        status, "api_error", "Something went wrong on our side: a fault that was ordered."
    )


def rate_limited() -> Response:
    """Return the response to a client over its rate limit."""
    message = "Too many requests: a fault that was ordered."
    kind = "invalid_request_error"
    return _error_response(HTTPStatus.TOO_MANY_REQUESTS, kind, message, code="rate_limit")
