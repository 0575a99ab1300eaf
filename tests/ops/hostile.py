"""Forged dead letters and dedup records: values that a producer, or a faulty writer, may leave."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from moto.sqs.models import sqs_backends

from once.failures.quarantine import allowed
from once.names import RELAY, DeadLetterAttribute, Outcome, Reason, Record, Standing, State
from tests.ops.cloud import REGION
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import add_to_answer

quick = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=8,
    # Examples share a fixture: each deletes its messages and records at its end.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

NOW = datetime.now(UTC)
OUT_OF_RANGE = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")
"""Date-times whose UTC form is outside the years 1 to 9999."""

_COMMANDS = "\x1b]0;owned\x07", "\x9b31m", "\u202e", "\u2066", "\x00", "\x7f", "\r", "\ud800"
_MARKUP = "[bold red]loud[/]", "[/]", "[link=file:///]x[/link]", ":smile:", "\\[", "[/nothing]"
_EDGES = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999", "2026-02-30", NOW.isoformat())

texts = st.text(max_size=20) | st.lists(
    st.sampled_from((*_COMMANDS, *_MARKUP, "\n", " ", ",", "#", "a", "1")), max_size=6
).map("".join)
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.one_of(
    st.sampled_from(OUT_OF_RANGE),
    st.sampled_from((*_EDGES, (NOW - timedelta(days=100)).isoformat())),
    st.datetimes(timezones=st.none() | zones).map(datetime.isoformat),
    texts,
)
numbers = st.one_of(
    st.sampled_from(("1.5", "-1", "0", "9" * 38, "-" + "9" * 38, "1E+125", "1E-130", "0.1")),
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-(10**7), 10**7).map(lambda s: str(int(NOW.timestamp()) + s)),
    st.integers(-(10**10), 10**10).map(lambda ms: str(int(NOW.timestamp() * 1000) + ms)),
)
keys = st.sampled_from((KEY, "orders#event#/test#other", "x#field#noted#a#b", "orders#", "#"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def some_of(members: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Dictionaries with any of these members."""
    return st.fixed_dictionaries({}, optional={**members})


events = some_of(
    {
        **dict.fromkeys(("id", "source", "type", "subject"), texts | json_values),
        "time": moments | json_values,
        "data": json_values,
        "extension": json_values,
    }
).map(lambda members: json.dumps({**note("a"), **members}))
"""Bodies that are valid events except for some members."""

_times = moments.map(lambda time: json.dumps({**note("a"), "time": time}))
_bodies = st.one_of(_times, events, texts, json_values.map(json.dumps))
_stays = st.tuples(
    st.one_of(st.just("m-1"), texts), st.one_of(st.sampled_from([*Reason]), texts), moments
).map(" ".join)
_lineages = st.one_of(
    st.lists(_stays, max_size=3).map(",".join),
    _stays.map(lambda stay: ",".join([stay] * 1000)),
)
_lambda_attributes = st.dictionaries(
    texts, some_of({"stringValue": json_values, "binaryValue": json_values}), max_size=2
)
_packed = json_values | st.fixed_dictionaries(
    {"body": texts, "attributes": _lambda_attributes | json_values}
)
_valid: dict[str, st.SearchStrategy[str | bytes]] = {
    DeadLetterAttribute.REASON: st.sampled_from([*Reason]),
    DeadLetterAttribute.KEY: keys,
    DeadLetterAttribute.FIRST_SEEN: moments,
    DeadLetterAttribute.RECEIVE_COUNT: numbers,
    DeadLetterAttribute.LINEAGE: _lineages,
    DeadLetterAttribute.ATTRIBUTES: _lambda_attributes.map(json.dumps),
    DeadLetterAttribute.ORIGINAL_GZIP: _packed.map(json.dumps).map(str.encode).map(gzip.compress),
    **dict.fromkeys(
        (DeadLetterAttribute.ERROR, DeadLetterAttribute.CONSUMER, "once-", "tenant"), texts
    ),
}
_invalid = st.one_of(moments, keys, texts, json_values.map(json.dumps))
_binaries = st.binary(min_size=1, max_size=20) | st.just(gzip.compress(b"[" * 100_000))


def attribute(value: str | bytes) -> dict[str, Any]:
    """A message attribute that SQS accepts."""
    if isinstance(value, bytes):
        return {"DataType": "Binary", "BinaryValue": value}
    return {"DataType": "String", "StringValue": allowed(value) or "-"}


_attribute = {
    name: st.one_of(valid, valid, _invalid, _binaries).map(attribute)
    for name, valid in _valid.items()
}
_attributes = st.one_of(
    st.just({}),
    # A single attribute: others could hide its effect.
    st.one_of([st.fixed_dictionaries({name: value}) for name, value in _attribute.items()]),
    some_of(_attribute).map(lambda some: dict([*some.items()][:10])),
)


@dataclass(frozen=True)
class Forged:
    """A forged dead letter.

    Attributes:
        body: its body.
        attributes: its message attributes.
        moved: whether SQS reports that it moved the message.
        relay: whether it is in the relay's queue.
    """

    body: str
    attributes: Mapping[str, Any]
    moved: bool = False
    relay: bool = False


messages = st.builds(
    Forged,
    _bodies.map(lambda body: allowed(body) or "-"),
    _attributes,
    moved=st.booleans(),
    relay=st.integers(0, 4).map(lambda n: n == 0),
)


def _text(text: str) -> dict[str, Any]:
    """A text attribute of DynamoDB, which is UTF-8."""
    return {"S": text.encode(errors="replace").decode()}


def _member_of(kind: type[StrEnum]) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([*kind]).map(_text)


_VALUES: tuple[dict[str, Any], ...] = (
    *({"NULL": True}, {"BOOL": False}, {"B": b"\x00"}, {"L": [{"N": "1"}]}),
    *({"M": {"S": {"S": "x"}}}, {"SS": ["a"]}, {"NS": ["1.5"]}),
)
_number = numbers.map(lambda number: {"N": number})
_any_value = st.one_of((texts | moments).map(_text), _number, st.sampled_from(_VALUES))
_outboxes = st.one_of(
    st.lists(some_of(dict.fromkeys(("id", "source", "type", "data"), json_values)), max_size=2).map(
        json.dumps
    ),
    st.lists(events, max_size=2).map(lambda some: f"[{','.join(some)}]"),
    texts,
).map(_text)
_record: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    Record.STATE: _member_of(State),
    Record.STANDING: _member_of(Standing),
    Record.OUTCOME: _member_of(Outcome),
    Record.OUTBOX: _outboxes,
    **dict.fromkeys(
        (Record.FINGERPRINT, Record.COMMIT, Record.EVENT_TYPE, Record.REFUSAL, Record.EFFECT),
        st.just(_text("noted")),
    ),
    **dict.fromkeys((Record.PROVIDER_KEY, Record.REQUEST, Record.OWNER), texts.map(_text)),
    **dict.fromkeys(
        (Record.COMMITTED_AT, Record.EXPIRES_AT, Record.KEY_EXPIRES_AT, Record.LEASE_UNTIL),
        _number,
    ),
}
_keys = st.just(KEY) | st.tuples(st.sampled_from(("orders#", "[bold]x#", "")), texts).map("".join)
items = st.fixed_dictionaries(
    {Record.PK: _keys.map(lambda key: _text(key or "-"))},
    optional={name: st.one_of(valid, valid, _any_value) for name, valid in _record.items()},
)


class Mess:
    """Fills a deployment with forged messages and records, and empties it again."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._moved: set[str] = set()
        add_to_answer("sqs.ReceiveMessage", self._mark_moved)

    @contextmanager
    def of(self, messages: Sequence[Forged], items: Sequence[Any] = ()) -> Iterator[list[str]]:
        """Put messages and records there for a while; yield the messages' message ids."""
        for item in items:
            self._shop.aws.dynamodb.put_item(TableName="dedup", Item=item)
        try:
            yield [self.send(message) for message in messages]
        finally:
            self._shop.forget()
            for account in sqs_backends.values():
                for queue in account[REGION].queues.values():
                    queue._messages.clear()

    def send(self, message: Forged) -> str:
        """Put a message there; return its message id."""
        sent = self._shop.sqs.send_message(
            QueueUrl=self._shop.cloud.box(RELAY if message.relay else "orders"),
            MessageBody=message.body,
            MessageAttributes=message.attributes,
        )
        if message.moved:
            self._moved.add(sent["MessageId"])
        return str(sent["MessageId"])

    def left(self) -> int:
        """Return the number of visible dead letters."""
        return self._shop.cloud.left("orders") + self._shop.cloud.left(RELAY)

    def _mark_moved(self, answer: Any) -> None:
        for message in answer.get("Messages", []):
            if message["MessageId"] in self._moved:
                message["Attributes"]["DeadLetterQueueSourceArn"] = "arn:aws:sqs:::queue"
