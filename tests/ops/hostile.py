"""Forged dead letters and dedup records: values that a producer, or a faulty writer, may leave."""

import gzip
import json
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any

from once.failures.quarantine import allowed
from once.names import RELAY, DeadLetterAttribute, Outcome, Record, Standing, State
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import add_to_answer

OUT_OF_RANGE = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")
"""Date-times whose UTC form is outside the years 1 to 9999."""
TEXT = (
    "\x1b]0;owned\x07\x9b31m\u202e\u2066\x7f\r[bold red]loud[/][/][link=file:///]x[/link]:smile:\\["
)
_BOMB = gzip.compress(b"[" * 100_000)
_PACKED = {"body": TEXT, "attributes": {"a": {"stringValue": 1, "binaryValue": "é"}}}
_MEMBERS = ("id", "source", "type", "subject", "time", "data", "datacontenttype", "extension")

Forged = tuple[str, dict[str, Any]]
"""Body and attributes of a message."""


def attribute(value: str | bytes) -> dict[str, Any]:
    """A message attribute that SQS accepts."""
    if isinstance(value, bytes):
        return {"DataType": "Binary", "BinaryValue": value}
    return {"DataType": "String", "StringValue": allowed(value) or "-"}


def forged(body: Any = None, /, **members: Any) -> Forged:
    """A message without attributes: with this body, or an event with these members."""
    text = body if isinstance(body, str) else json.dumps(note("a") | members)
    return allowed(text) or "-", {}


def with_attribute(name: str, value: str | bytes) -> Forged:
    return json.dumps(note("a")), {name: attribute(value)}


NAMES = [name for key, name in vars(DeadLetterAttribute).items() if key.isupper()]
ODD: tuple[str | bytes, ...] = (TEXT, OUT_OF_RANGE[0], "9" * 40, '{"a": [1.5, null]}', _BOMB)
MESSAGES: list[Forged] = [
    *(forged(text) for text in (TEXT, "", "[" * 2000, "null", "[1.5]", '{"id": NaN}')),
    *(forged(**{name: value}) for name in _MEMBERS for value in (TEXT, [1.5], None)),
    *(forged(time=moment) for moment in OUT_OF_RANGE),
    *(with_attribute(name, value) for name, value in product((*NAMES, "once-", "tenant"), ODD)),
    with_attribute(DeadLetterAttribute.LINEAGE, ",".join([f"m-1 died {OUT_OF_RANGE[1]}"] * 1000)),
    with_attribute(DeadLetterAttribute.ATTRIBUTES, json.dumps(_PACKED["attributes"])),
    with_attribute(DeadLetterAttribute.ORIGINAL_GZIP, gzip.compress(json.dumps(_PACKED).encode())),
]
"""Each has a single odd part: another one could hide its effect."""

VALUES: tuple[dict[str, Any], ...] = (
    *({"NULL": True}, {"BOOL": False}, {"B": b"\x00"}, {"L": [{"N": "1"}]}, {"S": TEXT}),
    *({"M": {"S": {"S": "x"}}}, {"SS": ["a"]}, {"NS": ["1.5"]}, {"S": OUT_OF_RANGE[0]}),
    *({"N": number} for number in ("1.5", "-1", "9" * 38, "1E-130")),
)
"""Values of a record's attributes."""
ATTRIBUTES = [name for key, name in vars(Record).items() if key.isupper() and name != Record.PK]
_NOTED, _FAR, _JSON = {"S": "noted"}, {"N": "9999999999999"}, {"S": "{}"}
_DONE: dict[str, Any] = {
    **dict.fromkeys((Record.FINGERPRINT, Record.COMMIT, Record.EVENT_TYPE), _NOTED),
    **dict.fromkeys((Record.COMMITTED_AT, Record.EXPIRES_AT), _FAR),
    Record.STATE: {"S": State.DONE},
    Record.OUTCOME: {"S": Outcome.ACCEPTED},
}
_PENDING = _DONE | {
    **dict.fromkeys((Record.PROVIDER_KEY, Record.REQUEST, Record.OWNER), _JSON),
    **dict.fromkeys((Record.KEY_EXPIRES_AT, Record.LEASE_UNTIL), _FAR),
    Record.STATE: {"S": State.PENDING},
    Record.STANDING: {"S": Standing.UNKNOWN},
    Record.EFFECT: {"S": "charge"},
}


def records() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names of notes, and for each a record with a single odd attribute."""
    odd = product((_DONE, _PENDING), ATTRIBUTES, VALUES)
    for number, (record, attribute, value) in enumerate(islice(odd, None, None, 5)):
        if attribute == Record.COMMITTED_AT and "N" not in value:
            continue  # AWS in memory fails if a filter compares a number with another type
        pk = {"S": KEY.replace("id-a", f"id-r-{number}")}
        yield f"r-{number}", {**record, attribute: value, Record.PK: pk}


class Mess:
    """Fills a deployment with forged messages."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._moved: set[str] = set()
        add_to_answer("sqs.ReceiveMessage", self._mark_moved)

    def fill(self, messages: Iterable[Forged] = MESSAGES) -> dict[str, str]:
        """Send messages, of which SQS moved a third, and a tenth is the relay's.

        Returns the owner of each message by its message id.
        """
        owners = {}
        for number, message in enumerate(messages):
            owner = RELAY if number % 10 == 9 else "orders"
            owners[self.send(message, moved=number % 3 == 0, owner=owner)] = owner
        return owners

    def send(self, message: Forged, *, moved: bool = False, owner: str = "orders") -> str:
        """Put a message there; return its message id."""
        body, attributes = message
        sent = self.shop.sqs.send_message(
            QueueUrl=self.shop.cloud.box(owner), MessageBody=body, MessageAttributes=attributes
        )
        if moved:
            self._moved.add(sent["MessageId"])
        return str(sent["MessageId"])

    def left(self) -> int:
        """Return the number of visible dead letters."""
        return self.shop.cloud.left("orders") + self.shop.cloud.left(RELAY)

    def _mark_moved(self, answer: Any) -> None:
        for message in answer.get("Messages", []):
            if message["MessageId"] in self._moved:
                message["Attributes"]["DeadLetterQueueSourceArn"] = "arn:aws:sqs:::queue"
