"""HTTP door: requests of Lambda as commands, and their outcomes as answers.

The key is that of the header `Idempotency-Key` (IETF draft-ietf-httpapi-idempotency-key-header).
Errors are problem details (RFC 9457), whose types are anchors of docs/commands.md.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from once.commands.answer import REPEATED, Problem, Reply
from once.commands.routes import route_faults, route_pattern
from once.commands.runner import MAX_KEY_BYTES, CommandRunner
from once.commands.scope import Scope, scope_faults
from once.errors import (
    ConditionFailed,
    InProgress,
    InvalidData,
    KeyConflict,
    RetryableError,
    TooLarge,
    Unparseable,
)
from once.events.strict_json import parse
from once.runtime.deadline import Context, Deadline
from once.runtime.lambda_http import LambdaAnswer, Request, answer_to, body_bytes, route_of

KEY = "idempotency-key"
"""The header with the caller's key."""

PROBLEMS = {
    "key-missing": (400, "Idempotency-Key is missing: send a key, the same in each attempt"),
    "key-malformed": (400, "Idempotency-Key is malformed: send one short string in quotes"),
    "key-reused": (422, "Idempotency-Key belongs to a command with other content"),
    "malformed-body": (400, "The body is not strict JSON in UTF-8"),
    "invalid-data": (400, "The body does not fit the command"),
    "too-large": (413, "The body is too large"),
    "unauthenticated": (401, "The sender is not known"),
    "unknown-route": (404, "There is no such path"),
    "wrong-method": (405, "The path has no such method"),
    "in-progress": (409, "Another request with this Idempotency-Key is running: send it again"),
    "failed": (500, "The command has failed, and nothing of it was stored"),
    "not-committed": (503, "The command is not known to be done: send it again with the same key"),
}
"""Status and title of each problem that the door answers with, by the last part of its type."""

PROBLEM = "urn:once:problem:"
"""Begin of each problem's type."""

_OF_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (KeyConflict, "key-reused"),
    (InvalidData, "invalid-data"),
    (Unparseable, "malformed-body"),
    (InProgress, "in-progress"),
    (ConditionFailed, "failed"),
    (RetryableError, "not-committed"),
    (Exception, "failed"),
)
"""The problem of an error is that of its first class here."""

_RETRY = {kind: {"retry-after": "1"} for kind in ("in-progress", "not-committed")}
_TRACE = ("traceparent", "tracestate")

# RFC 8941: a String as the only Item of a header. Its parameters have no meaning here.
_STRING = r'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_NAME = r"[a-z*][a-z0-9_.*-]*"
_OTHER = r"[*A-Za-z][!#$%&'*+.^`|~:/\w-]*|-?\d{1,15}(?:\.\d{1,3})?|:[A-Za-z0-9+/=]*:|\?[01]"
_KEY_ITEM = re.compile(rf" *{_STRING}(?:; *{_NAME}(?:=(?:{_STRING}|{_OTHER}))?)* *", re.A)
_BARE_UUID = re.compile(r" *([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}) *")
_ESCAPED = re.compile(r"\\(.)")


def key_in(header: str) -> str | None:
    """Return the key in the value of `Idempotency-Key`; None if it is malformed, blank or too long.

    It is a String of structured fields (RFC 8941). A UUID without quotes is taken too. The values
    of a header that was sent twice are joined by a comma, and so are malformed.
    """
    if found := _BARE_UUID.fullmatch(header):
        return found[1]
    item = _KEY_ITEM.fullmatch(header)
    key = _ESCAPED.sub(r"\1", item[1]) if item else ""
    return key if key.strip() and len(key) <= MAX_KEY_BYTES else None


class _Refused(Exception):
    """A request that is answered with a problem."""

    def __init__(self, kind: str, detail: str = "", **headers: str) -> None:
        super().__init__(kind)
        status, title = PROBLEMS[kind]
        problem = Problem(title, status, detail, f"{PROBLEM}{kind}")
        headers = {"content-type": "application/problem+json", **_RETRY.get(kind, {}), **headers}
        self.reply = Reply(status, headers, msgspec.json.encode(problem.members()))

    @classmethod
    def by(cls, error: Exception) -> "_Refused":
        """Return the problem of an error. Only the faults of a body have a text for its sender."""
        kind = next(kind for of, kind in _OF_ERRORS if isinstance(error, of))
        return cls(kind, str(error) if isinstance(error, InvalidData | Unparseable) else "")


class HttpDoor:
    """The entry of a function: `lambda_handler = api.http({"POST /orders": "place-order"}, …)`.

    `runner` returns that of the commands, when the first request comes.
    """

    def __init__(
        self, runner: Callable[[], CommandRunner], routes: Mapping[str, str], scope: Scope | None
    ) -> None:
        self.routes, self.scope = dict(routes), scope
        self._runner = runner
        self._patterns = [
            (*pattern, command)
            for route, command in routes.items()
            if (pattern := route_pattern(route))
        ]

    def faults(self, commands: Collection[str]) -> Iterator[str]:
        """Yield the mistakes in routes and scope, each with its remedy.

        `commands` are those that have a handler.
        """
        yield from scope_faults(self.scope)
        if not self.routes:
            yield 'http() has no route; give {"POST /orders": "place-order"}'
        for route, command in self.routes.items():
            yield from route_faults(route)
            if command not in commands:
                yield (
                    f"{route!r} is for {command!r}, which has no handler; register one with "
                    "@api.handles"
                )

    def __call__(self, event: Mapping[str, Any], context: Context) -> LambdaAnswer:
        """Answer one request. No error leaves this function."""
        try:
            reply = self._reply(event, context)
        except _Refused as refused:
            reply = refused.reply
        except Exception as error:
            reply = _Refused.by(error).reply
        headers = {**reply.headers, **({REPEATED: "true"} if reply.repeated else {})}
        body = reply.body.decode()
        return answer_to(event, {"statusCode": reply.status, "headers": headers, "body": body})

    def _reply(self, event: Mapping[str, Any], context: Context) -> Reply:
        runner = self._runner()
        settings = runner.runtime.settings
        remaining_ms, seconds = context.get_remaining_time_in_millis, settings.answer_seconds
        deadline = runner.deadline(seconds, remaining_ms)
        command, fields = self._route(event)
        scope = self.scope.of(event) if self.scope else None
        if scope is None:
            raise _Refused("unauthenticated")
        if body_bytes(event) > settings.max_body_bytes:
            raise _Refused("too-large")
        request = Request.of(event)
        header = request.headers.get(KEY)
        if header is None:
            raise _Refused("key-missing")
        if (key := key_in(header)) is None:
            raise _Refused("key-malformed")
        data = _data(request.body, fields, settings.max_body_bytes, deadline)
        trace = {name: value for name in _TRACE if (value := request.headers.get(name))}
        return runner.run(command, data, key=key, scope=scope, deadline=deadline, trace=trace)

    def _route(self, event: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """Return the command of a request, and the fields of its data that its path has."""
        method, path = route_of(event)
        found = {m: (c, match) for m, p, c in self._patterns if (match := p.fullmatch(path))}
        if not found:
            raise _Refused("unknown-route")
        if method not in found:
            raise _Refused("wrong-method", allow=", ".join(sorted(found)))
        command, match = found[method]
        return command, match.groupdict()


def _data(body: bytes, fields: Mapping[str, str], max_bytes: int, deadline: Deadline) -> Any:
    """Return the JSON of a body with the fields of the path; an empty body is an empty object."""
    try:
        data = parse(body.decode(), max_bytes=max_bytes, deadline=deadline) if body else {}
    except TooLarge:
        raise _Refused("too-large") from None
    except UnicodeDecodeError:
        raise _Refused("malformed-body") from None
    if not fields:
        return data
    if not isinstance(data, dict) or any(data.get(n, v) != v for n, v in fields.items()):
        text = "a field of the path is to be a field of the body, with one value if both have it"
        raise _Refused("invalid-data", text)
    return {**data, **fields}
