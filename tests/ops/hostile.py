"""Any dead letter and any dedup record: what a producer, or a faulty writer, could leave behind."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from once.events.dedup_key import key_hash
from once.failures.quarantine import allowed
from once.schema import DeadLetter, Outcome, Reason, Record, Standing, State
from tests.ops.letters import note

quick = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Each example clears what the last one left, so they share a fixture."""

NOW = datetime.now(UTC)
PK = "orders#event#/test#id-a"
"""The key of `note("a")`."""

COMMANDS = "\x1b]0;owned\x07", "\x9b31m", "\u202e", "\u2066", "\x00", "\x7f", "\r", "\ud800"
MARKUP = "[bold red]loud[/]", "[/]", "[link=file:///]x[/link]", ":smile:", "\\[", "[/nothing]"
texts = st.one_of(
    st.text(max_size=20),
    st.lists(st.sampled_from((*COMMANDS, *MARKUP, "\n", " ", ",", "#", "a", "1")), max_size=6).map(
        "".join
    ),
)
beyond = st.sampled_from(("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"))
edges = st.sampled_from(
    (
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999", "2026-02-30"),
        *(NOW.isoformat(), (NOW - timedelta(days=100)).isoformat()),
    )
)
moments = st.one_of(
    beyond,
    edges,
    st.datetimes(
        timezones=st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
    ).map(datetime.isoformat),
    texts,
)
numbers = st.one_of(
    st.sampled_from(("1.5", "-1", "0", "9" * 38, "-" + "9" * 38, "1E+125", "1E-130", "0.1")),
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-(10**7), 10**7).map(lambda s: str(int(NOW.timestamp()) + s)),
    st.integers(-(10**10), 10**10).map(lambda ms: str(int(NOW.timestamp() * 1000) + ms)),
)
hashes = st.sampled_from((key_hash(PK), key_hash("other"), "A" * 64, "0" * 63))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

_stays = st.tuples(
    st.one_of(st.just("m-1"), texts), st.one_of(st.sampled_from([*Reason]), texts), moments
).map(" ".join)
_lambda_attributes = st.dictionaries(
    texts,
    st.fixed_dictionaries({}, optional={"stringValue": json_values, "binaryValue": json_values}),
    max_size=2,
)
_packed = st.one_of(
    json_values,
    st.fixed_dictionaries({"body": texts, "attributes": _lambda_attributes | json_values}),
)


def events() -> st.SearchStrategy[str]:
    """Bodies that are events: sound ones in which some members are anything at all."""
    anything = {
        **dict.fromkeys(("id", "source", "type", "subject"), texts | json_values),
        "time": moments | json_values,
        "data": json_values,
    }
    changes = st.fixed_dictionaries({}, optional={**anything, "extension": json_values})
    return changes.map(lambda members: json.dumps({**note("a"), **members}))


times = moments.map(lambda time: json.dumps({**note("a"), "time": time}))
bodies = st.one_of(times, events(), texts, json_values.map(json.dumps))

_lineages = st.one_of(
    st.lists(_stays, max_size=3).map(",".join),
    _stays.map(lambda stay: ",".join([stay] * 1000)),
)
_usual: dict[str, st.SearchStrategy[str | bytes]] = {
    DeadLetter.REASON: st.sampled_from([*Reason]),
    DeadLetter.KEY_HASH: hashes,
    DeadLetter.FIRST_SEEN: moments,
    DeadLetter.RECEIVE_COUNT: numbers,
    DeadLetter.LINEAGE: _lineages,
    DeadLetter.ATTRIBUTES: _lambda_attributes.map(json.dumps),
    DeadLetter.ORIGINAL_GZIP: _packed.map(json.dumps).map(str.encode).map(gzip.compress),
    **dict.fromkeys((DeadLetter.ERROR, DeadLetter.CONSUMER, "once-", "tenant"), texts),
}
_unusual = st.one_of(moments, hashes, texts, json_values.map(json.dumps))
_binaries = st.binary(min_size=1, max_size=20) | st.just(gzip.compress(b"[" * 100_000))


def attribute(value: str | bytes) -> dict[str, Any]:
    """A message attribute, as far as SQS takes it."""
    if isinstance(value, bytes):
        return {"DataType": "Binary", "BinaryValue": value}
    return {"DataType": "String", "StringValue": allowed(value) or "-"}


_anything = {
    name: st.one_of(usual, usual, _unusual, _binaries).map(attribute)
    for name, usual in _usual.items()
}
_only_one = [st.fixed_dictionaries({name: value}) for name, value in _anything.items()]
attributes = st.one_of(
    st.just({}),
    st.one_of(_only_one),  # the others must not be in the way of what it does
    st.fixed_dictionaries({}, optional=_anything).map(lambda some: dict([*some.items()][:10])),
)


@dataclass(frozen=True)
class Forged:
    """A dead letter that could be there.

    Attributes:
        body: its body.
        attributes: its message attributes.
        moved: whether SQS moved it, and says so.
        relay: whether it is the relay's.
    """

    body: str
    attributes: Mapping[str, Any]
    moved: bool = False
    relay: bool = False


letters = st.builds(
    Forged,
    bodies.map(lambda body: allowed(body) or "-"),
    attributes,
    moved=st.booleans(),
    relay=st.integers(0, 4).map(lambda n: n == 0),
)

values = st.one_of(
    st.one_of(texts, moments).map(lambda text: {"S": _stored(text)}),
    numbers.map(lambda number: {"N": number}),
    st.sampled_from(
        (
            {"NULL": True},
            {"BOOL": False},
            {"B": b"\x00"},
            {"L": [{"N": "1"}]},
            {"M": {"S": {"S": "x"}}},
            {"SS": ["a"]},
            {"NS": ["1.5"]},
        )
    ),
)
outboxes = st.one_of(
    st.lists(
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("id", "source", "type", "data"), json_values)
        ),
        max_size=2,
    ).map(json.dumps),
    st.lists(events(), max_size=2).map(lambda some: f"[{','.join(some)}]"),
    texts,
).map(lambda text: {"S": _stored(text)})


def _stored(text: str) -> str:
    """A text as DynamoDB can hold it: UTF-8."""
    return text.encode(errors="replace").decode()


def _one_of(kind: type[StrEnum]) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([*kind]).map(lambda member: {"S": str(member)})


_written: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    Record.STATE: _one_of(State),
    Record.STANDING: _one_of(Standing),
    Record.OUTCOME: _one_of(Outcome),
    Record.OUTBOX: outboxes,
    **dict.fromkeys(
        (Record.FINGERPRINT, Record.COMMIT, Record.EVENT_TYPE, Record.REFUSAL, Record.EFFECT),
        st.just({"S": "noted"}),
    ),
    **dict.fromkeys(
        (Record.PROVIDER_KEY, Record.REQUEST, Record.OWNER), texts.map(lambda t: {"S": _stored(t)})
    ),
    **dict.fromkeys(
        (Record.COMMITTED_AT, Record.EXPIRES_AT, Record.KEY_EXPIRES_AT, Record.LEASE_UNTIL),
        numbers.map(lambda number: {"N": number}),
    ),
}
_pks = st.one_of(
    st.just(PK),
    st.builds("{}{}".format, st.sampled_from(("orders#", "[bold]x#", "")), texts).map(_stored),
).map(lambda text: {"S": text or "-"})
items = st.fixed_dictionaries(
    {Record.PK: _pks},
    optional={name: st.one_of(usual, usual, values) for name, usual in _written.items()},
)
