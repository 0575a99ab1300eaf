"""Answer of a command: what its handler returns, and the bytes that its dedup record keeps.

The record keeps status, headers and bytes. A repeated command gets them as they were, also from a
newer version of the function.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Self

import msgspec
from msgspec import Struct, field

from once.commit.dedup_record import StoredRecord
from once.errors import InvalidWrite
from once.events.cloud_event import fault_text
from once.events.models import as_builtins

ANSWER_BYTES = 256 * 1024
"""Largest answer. The rest of the 400 KB of an item is for the events that commit with it."""

REPEATED = "idempotent-replayed"
"""Header of an answer that an earlier request was given first; the name is Stripe's."""

_JSON, _PROBLEM = "application/json", "application/problem+json"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?")
_OF_THE_DOOR = {"connection", "content-length", "transfer-encoding", REPEATED}
"""Headers that are no handler's: of the connection, and of the library."""
_FIRST_SUCCESS, _FIRST_FAILURE = 200, 500


class Answer(Struct, frozen=True):
    """An answer with a status or headers of its own. Handlers and rejections may return it.

    Attributes:
        value: an object of a model, or anything else that JSON can hold; None for no content.
        status: the HTTP status, from 200 to 499. 0 is 200, or 204 for no content, and 409 for a
            refusal.
        headers: further HTTP headers, such as `location`.
    """

    value: Any = None
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


class Problem(Struct, frozen=True):
    """Problem details (RFC 9457), as the answer to a refusal.

    Attributes:
        title: the kind of problem in a few words, the same for each occurrence.
        status: the HTTP status.
        detail: this occurrence, for the reader.
        type: a URI that identifies the kind.
        more: further members.
    """

    title: str
    status: int = 409
    detail: str = ""
    type: str = "about:blank"
    more: Mapping[str, Any] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON object."""
        own = {"type": self.type, "title": self.title, "status": self.status}
        return {**self.more, **own, **({"detail": self.detail} if self.detail else {})}


class Reply(Struct, frozen=True):
    """The outcome of a command.

    Attributes:
        status: the HTTP status.
        headers: the HTTP headers.
        body: the answer's bytes, the same for each request with the command's key.
        repeated: whether an earlier request had this answer.
        refusal: the class of the business refusal; None if the command succeeded.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: bool = False
    refusal: str | None = None

    @property
    def value(self) -> Any:
        """The answer as parsed JSON; None if it has no content."""
        return msgspec.json.decode(self.body) if self.body else None

    @classmethod
    def of(cls, returned: Any, refusal: str | None) -> Self:
        """Return the outcome for what a handler, or the rejection of a refusal, has returned.

        Raises:
            InvalidWrite: it has no form in JSON, is too large, or its status or headers are none.
        """
        answer = returned if isinstance(returned, Answer) else Answer(returned)
        kind, value, status = _JSON, answer.value, answer.status
        if isinstance(value, Problem):
            kind, status, value = _PROBLEM, status or value.status, value.members()
        try:
            body = b"" if value is None else msgspec.json.encode(as_builtins(value))
        except (InvalidWrite, TypeError, ValueError, RecursionError) as error:
            raise InvalidWrite(f"the answer has no form in JSON: {fault_text(error)}") from None
        if len(body) > ANSWER_BYTES:
            raise InvalidWrite(
                f"the answer has {len(body)} bytes, and a record keeps {ANSWER_BYTES}: answer with "
                "an id, or with the place where the rest can be read"
            )
        status = status or (409 if refusal else 200 if body else 204)
        _check_status(status, body)
        headers = {**({"content-type": kind} if body else {}), **_headers(answer.headers)}
        return cls(status, headers, body, refusal=refusal)

    def attribute(self) -> dict[str, Any]:
        """Return the attribute of the dedup record, in DynamoDB's JSON."""
        headers = {name: {"S": value} for name, value in self.headers.items()}
        return {
            "M": {
                "status": {"N": str(self.status)},
                "headers": {"M": headers},
                "body": {"S": self.body.decode()},
            }
        }

    @classmethod
    def stored(cls, record: StoredRecord) -> Self:
        """Return the outcome that a record keeps, for a request that repeats it."""
        kept = record.answer["M"]  # type: ignore[index]
        headers = {name: value["S"] for name, value in kept["headers"]["M"].items()}
        body = kept["body"]["S"].encode()
        return cls(int(kept["status"]["N"]), headers, body, repeated=True, refusal=record.refusal)


def _check_status(status: int, body: bytes) -> None:
    try:
        is_known = _FIRST_SUCCESS <= HTTPStatus(status) < _FIRST_FAILURE
    except ValueError:
        is_known = False
    if not is_known:
        raise InvalidWrite(
            "the status of an answer is one of HTTP from 200 to 499: it is stored and repeated. To "
            "have the command tried again, raise an error"
        )
    if body and status in (204, 205, 304):
        raise InvalidWrite(f"an answer with the status {status} has no content: return None")


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in given.items():
        is_text = isinstance(name, str) and isinstance(value, str)
        if not is_text or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InvalidWrite("a header of an answer is no name and value in ASCII (RFC 9110)")
        if name.lower() in _OF_THE_DOOR:
            raise InvalidWrite(f"the header {name.lower()} is not an answer's: leave it out")
        headers[name.lower()] = value
    return headers
