"""Commands: HTTP requests with hostile keys, in every shape that Lambda has.

A header is made from a key, so that its meaning is known, and may be changed afterwards. Each
request is sent in all shapes, and then once more with another header, on the simulated AWS.
"""

import base64
import itertools
import json
import re
from random import Random
from typing import Any

from msgspec import Struct

from once.commands.answer import REPEATED, Answer
from once.commands.handlers import Commands
from once.commands.http_door import PROBLEMS, HttpDoor, key_in
from once.commands.runner import MAX_KEY_BYTES, CommandRuntime
from once.commands.scope import Scope
from once.events.identity import command_key
from once.names import Limits, Record
from once.settings import CommandSettings, TableSettings
from once.transaction import Transaction
from proof.fuzz import messages, texts
from proof.fuzz.reading import CONTEXT, LOGGER
from proof.fuzz.search import expect
from proof.fuzz.texts import one_in
from proof.world.calls import connected
from proof.world.clients import NO_METRICS, clients
from proof.world.tables import Tables

Given = dict[str, Any]
"""Values of the header, the key that they mean (empty if malformed, None if unknown), the header's
name, the caller's claim, whether the body is sent as base64, and headers of another request."""

_API, _COMMAND, _ORDERS = "checkout", "place-order", "orders"
_UUID = "8e03978e-40d5-43dd-bc93-6894a57f9324"
_KEYS = ("k", "k-1", "K", "a b", '"', "\\", 'a"b', "a\\", "a,b", "a;b=1", '"a"', "%23", "#", "~ !")
_LENGTHS = (1, MAX_KEY_BYTES - 1, MAX_KEY_BYTES, MAX_KEY_BYTES + 1, 9000)
_PARAMETERS = (
    *(";a", "; a", ";  a=1", ";a=-1.5", ";a=?1", ";a=tok/en:x", ';a="x,y;\\"z"', ";a=:YQ==:"),
    *(";*a", ";a;a=2", ";a=1" * 900),
)
_NO_PARAMETERS = (
    ";",
    " ;a",
    ";A",
    ";a=",
    ";a=é",
    ";a=?2",
    ";a=1.",
    ";a=ké",
    ";a=-١",
    ";a='x'",
    ";;a",
    ",",
    ';a="x',
)
_NO_STRINGS = (
    "k",
    "1",
    "-1.5",
    "?1",
    ":YQ==:",
    _UUID[1:],
    f"{_UUID}0",
    f"{{{_UUID}}}",
    f"{_UUID};a",
)
_LISTS = ('"a", "b"', '"k","k"', '("k")', '("k" "k");a', f"{_UUID}, {_UUID}", '"k",', ',"k"')
_JUNK = (
    *("", " ", "\t", '"', "\\", ",", ";", "=", "é", "\u00a0", "\u3000", "\x00", "\n", "\x7f"),
    *("\ud800", "١", "K", '""', "a=", ":", "?", "\u2028", "A" * 5000, '"' * 5000, "\\" * 5001),
    *(";a=1," * 2000, ";a" * 5000 + ";", '"k"', _UUID),
)
_NAMES = ("idempotency-key", "Idempotency-Key", "IDEMPOTENCY-KEY", "iDEMPOTENCY-kEY")
_CALLERS: tuple[Any, ...] = (
    *("alice", "alice", "alice", "alice", "é", "a" * 3000, "[]", '"', "#", 7),
    *(" ", "", None, [], "\ud800"),
)
_SHAPES = ("2.0", "1.0", "rest", "alb")

api = Commands(_API)
_orders = api.table(_ORDERS)


class _Order(Struct, frozen=True):
    order_id: str


@api.handles(_COMMAND, _Order)
def _place(command: _Order, tx: Transaction) -> Answer:
    """Answer with a number that no other run has, so that an answer is that of one commit."""
    run = str(next(_runs))
    tx.update(_orders, {"order_id": command.order_id}, add={"times": 1})
    return Answer({"run": run}, status=201, headers={"x-run": run})


_runs = itertools.count()


def draw(rng: Random) -> Given:
    """Return a request, and the header of another one by the same caller."""
    values, key = _headers(rng)
    other, other_key = _headers(rng)
    return {
        "values": values,
        "key": key,
        "name": rng.choice(_NAMES),
        "caller": rng.choice(_CALLERS),
        "base64": bool(one_in(rng, 2)),
        "other": other,
        "other_key": other_key,
    }


def _headers(rng: Random) -> tuple[list[str], str | None]:
    """Return the values of the header as sent, and the key that they mean."""
    pick = rng.randrange(20)
    if pick > 17:
        return [], ""
    value, key = _header(rng)
    if pick < 15:
        return [value], key
    if pick == 15:
        return [rng.choice(_LISTS)], ""
    return [value, rng.choice((value, _header(rng)[0]))], "" if key else None


def _header(rng: Random) -> tuple[str, str | None]:
    """Return a header of a key, which may be changed, and the key that it means."""
    pick = rng.randrange(10)
    if pick == 9:
        bare = rng.choice((_UUID, f" {_UUID} ", *_NO_STRINGS))
        return bare, _UUID if bare.strip() == _UUID else ""
    key = rng.choice(_KEYS) if pick < 7 else texts.text(rng)
    if pick == 8:
        key = rng.choice('k\\" ') * rng.choice(_LENGTHS)
    value = _quoted(key)
    is_one = key.strip() and key.isascii() and key.isprintable() and len(key) <= MAX_KEY_BYTES
    change = rng.randrange(10)
    if change < 4:
        return value, key if is_one else ""
    if change < 6:
        return f" {value}{rng.choice(_PARAMETERS)}  ", key if is_one else ""
    if change == 6:
        return value + rng.choice(_NO_PARAMETERS), ""
    at = rng.randint(0, len(value))
    return value[:at] + rng.choice(_JUNK) + value[at + rng.choice((0, 0, 1)) :], None


def _event(shape: str, given: Given, values: list[str]) -> dict[str, Any]:
    """Return a request in one of Lambda's shapes."""
    text = '{"order_id": "o-1"}'
    event: dict[str, Any] = {"body": text, "isBase64Encoded": given["base64"]}
    if given["base64"]:
        event["body"] = base64.b64encode(text.encode()).decode()
    name, claims = given["name"], {"claims": {"sub": given["caller"]}}
    if shape == "2.0":
        context = {"http": {"method": "POST"}, "authorizer": {"jwt": claims}}
        headers = {name.lower(): ",".join(values)} if values else {}
        event |= {"version": shape, "rawPath": "/orders", "requestContext": context}
        return {**event, "headers": headers}
    event |= {"path": "/orders", "httpMethod": "POST", "headers": None}
    event["multiValueHeaders"] = {name: values} if values else {}
    event["requestContext"] = {"elb": {}} if shape == "alb" else {"authorizer": claims}
    return {**event, "version": shape} if shape == "1.0" else event


class _Aws:
    """The function on tables of `proof.world`."""

    def __init__(self) -> None:
        keys = {"dedup": Record.PK, _ORDERS: "order_id"}
        self._tables = Tables(keys, "dedup", lambda: messages.NOW)
        self.records = self._tables.items["dedup"]
        settings = CommandSettings(
            consumer=_API,
            commands=tuple(api.handlers),
            dedup_table="dedup",
            tables={_ORDERS: TableSettings(_ORDERS, ("order_id",))},
            dedup_window_seconds=60,
        )
        runtime = CommandRuntime(
            settings=settings,
            dynamodb=clients().dynamodb,
            logger=LOGGER,
            clock=lambda: messages.NOW,
            sleep=lambda _: None,
            metrics=NO_METRICS,
        )
        runner = api.bound_to(runtime)
        routes = {"POST /orders": _COMMAND}
        self._of_claim = HttpDoor(lambda: runner, routes, Scope.claim("sub"))
        self._of_all = HttpDoor(lambda: runner, routes, Scope.public())  # an ALB verifies no claim

    @property
    def effects(self) -> int:
        """The number of commits."""
        order = self._tables.items[_ORDERS].get("o-1", {})
        return int(order.get("times", {"N": "0"})["N"])

    def sent(self, shape: str, given: Given, values: list[str]) -> Any:
        """Send a request; return its answer."""
        door = self._of_all if shape == "alb" else self._of_claim
        with connected(lambda call: self._tables.answer(call.operation, call.request)):
            return door(_event(shape, given, values), CONTEXT)


def check(given: Given) -> None:
    """Send a request in all shapes, and one with another header; compare answers and effects."""
    aws, values = _Aws(), given["values"]
    key, other = _read(values, given["key"]), _read(given["other"], given["other_key"])
    kind = ("key-malformed" if values else "key-missing") if key is None else ""
    caller = _scope(given["caller"])
    answers = [aws.sent(shape, given, values) for shape in _SHAPES]
    for shape, answer in zip(_SHAPES, answers, strict=True):
        _check_answer(answer, kind if caller or shape == "alb" else "unauthenticated")
        expect(("statusDescription" in answer) == (shape == "alb"), "an ALB gets its own shape")
    if key is not None and caller:
        first, *again = answers[:3]
        repeated = {**first, "headers": {**first["headers"], REPEATED: "true"}}
        expect(again == [repeated] * 2, "one key has one answer in every shape")
    scopes = filter(None, (caller, '["public"]')) if key is not None else ()
    of_key = {command_key(_API, scope=s, command=_COMMAND, key=str(key)) for s in scopes}
    expect({*aws.records} == of_key, "a record has the key that was sent, and its sender")
    expect(aws.effects == len(of_key), "one key has one effect")
    fits = all(len(pk.encode()) <= Limits.PARTITION_KEY_BYTES for pk in of_key)
    expect(fits, "a key fits into the table")
    is_repeated = REPEATED in aws.sent("alb", given, given["other"])["headers"]
    expect(is_repeated == (other is not None and other == key), "two keys share no answer")


def _read(values: list[str], meant: str | None) -> str | None:
    """Return the key that is read in a header, and check it; `meant` is as in `Given`."""
    header = ",".join(_as_text(value) for value in values)
    key = key_in(header) if values else None
    if meant is not None:
        expect((key or "") == meant, "a well-formed key is read, and no other")
    if key is not None:
        is_plain = key.isascii() and key.isprintable() and bool(key.strip())
        expect(is_plain and len(key) <= MAX_KEY_BYTES, "a key is short and printable")
        sent = header.strip(" ")
        rest = sent.removeprefix(_quoted(key))
        is_parameters = rest.isascii() and rest[:1] in ("", ";")
        expect(sent == key or (rest != sent and is_parameters), "a key is what was sent, whole")
    return key


def _scope(caller: Any) -> str:
    """Return the scope of a claim; empty if it is none."""
    try:
        is_one = isinstance(caller, str | int) and str(caller).strip() and str(caller).encode()
    except UnicodeEncodeError:
        return ""
    scope = json.dumps(["claim", "sub", caller], separators=(",", ":"), ensure_ascii=False)
    return scope if is_one else ""


def _check_answer(answer: Any, kind: str) -> None:
    """Check that an answer is that of the command, or a problem of this kind."""
    members, headers = json.loads(answer["body"]), answer["headers"]
    status, title = PROBLEMS[kind] if kind else (201, None)
    is_it = answer["statusCode"] == status and members.get("title") == title
    expect(is_it, "a request has the answer of its header")
    media = "application/problem+json" if kind else "application/json"
    expect(headers["content-type"] == media, "an answer has its type")


def _as_text(value: str) -> str:
    """Return a header as it would come over HTTP, which has no lone surrogates."""
    return value.encode(errors="replace").decode()


def _quoted(key: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'
