"""HTTP messages: request and response, without sockets."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, with the parts that the sandbox uses.

    Attributes:
        method: such as `POST`.
        target: the path with its query.
        authorization: the header of that name; empty without one.
        idempotency_key: the header of that name; None without one.
        body: form-encoded.
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

    @property
    def query(self) -> dict[str, str]:
        """The parameters in the target."""
        return _fields(urlsplit(self.target).query)

    @property
    def form(self) -> dict[str, str]:
        """The parameters in the body, under names such as `metadata[order_id]`."""
        return _fields(self.body)


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response: status, JSON body, and whether it is replayed."""

    status: int
    body: Any
    replayed: bool = False


def _fields(encoded: str) -> dict[str, str]:
    return dict(parse_qsl(encoded, keep_blank_values=True))
