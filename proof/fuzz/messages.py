"""Messages as Lambda hands them over, with attributes of their own, of ours, and forged ones."""

import gzip
import json
import re
import time
import zlib
from base64 import b64decode, b64encode
from functools import cache
from random import Random
from typing import Any

from once.schema import DeadLetter
from proof.fuzz import bodies, nasty
from proof.fuzz.mutation import damaged

Message = dict[str, Any]
"""A message as it is drawn: `body`, `receives`, and by name `attributes`, each a kind and a text.

Kinds are String, Binary (in base64), Gzip of a text, and Bomb, which inflates to so many bytes.
"""

ARN = "arn:aws:sqs:us-east-1:123456789012:queue"
NOW = int(time.time())
SENT = str(NOW * 1000)
_PIECE = b"x" * 2**20
BOMBS = (9 * len(_PIECE), 64 * len(_PIECE))
"""Into how many bytes they inflate."""

_REFUSED = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def message(rng: Random) -> Message:
    """Return a message."""
    return {
        "body": bodies.body(rng),
        "attributes": {} if rng.random() < 0.6 else attributes(rng),
        "receives": rng.choice((1, 1, 1, 2, 3, 4)),
    }


def record(message: Message, message_id: str = "m-1") -> dict[str, Any]:
    """Return a message in the form in which Lambda hands it to a function, less what SQS refuses.

    Args:
        message: as it was drawn.
        message_id: the id that SQS gave it.
    """
    return {
        "messageId": message_id,
        "receiptHandle": f"handle-of-{message_id}",
        "body": sendable(message["body"]),
        "attributes": {
            "ApproximateReceiveCount": str(message["receives"]),
            "ApproximateFirstReceiveTimestamp": "1700000000000",
            "SentTimestamp": SENT,
        },
        "messageAttributes": {
            name: _shown(*attribute) for name, attribute in message["attributes"].items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN,
    }


def _shown(kind: str, value: str) -> dict[str, Any]:
    lists: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}
    match kind:
        case "String":
            return {"stringValue": sendable(value), "dataType": "String", **lists}
        case "Bomb":
            content = _bomb(int(value))
        case "Gzip":
            content = _compressed(value)
        case _:
            content = b64decode(value)
    return {"binaryValue": b64encode(content).decode(), "dataType": "Binary", **lists}


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode(errors="surrogatepass"), compresslevel=1, mtime=0)


@cache
def _bomb(size: int) -> bytes:
    """Compress so much text, a piece at a time: it must not go off here either."""
    machine = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    pieces = [machine.compress(b'{"attributes": {}, "body": "')]
    pieces += [machine.compress(_PIECE) for _ in range(size // len(_PIECE))]
    return b"".join((*pieces, machine.compress(b'"}'), machine.flush()))


def attributes(rng: Random) -> dict[str, Any]:
    """Return message attributes: such as any producer may send, and such as look like ours."""
    names = ("tenant", "once-lineage", "once-first-seen", "once-reason", "a.b")
    found = {name: ["String", nasty.text(rng)] for name in rng.sample(names, rng.randint(0, 2))}
    if rng.random() < 0.5:
        kept = rng.choice((["String", _kept(rng)], ["String", _kept(rng)], ["Binary", "e30="]))
        found[DeadLetter.ATTRIBUTES] = kept
    if rng.random() < 0.4:
        found[DeadLetter.ORIGINAL_GZIP] = rng.choice((_packed(rng), _packed(rng), ["String", "x"]))
    return found


def sendable(text: str) -> str:
    """Return what SQS would take of a text: the characters of XML 1.0, and at least one."""
    return _REFUSED.sub("", text) or "x"


def _kept(rng: Random) -> str:
    """The attributes of an earlier quarantine, or what only looks like them."""
    tree: Any = _inner(rng)
    text = json.dumps(tree if rng.random() < 0.6 else nasty.changed(rng, tree))
    return damaged(rng, text) if rng.random() < 0.3 else text


def _packed(rng: Random) -> list[str]:
    """An original of an earlier quarantine, or what only looks like it."""
    pick = rng.random()
    if pick < 0.015:
        return ["Bomb", str(rng.choice(BOMBS))]
    tree: Any = {"body": bodies.body(rng), "attributes": _inner(rng)}
    if pick < 0.4:
        tree = nasty.changed(rng, tree)
    text = json.dumps(tree)
    if pick < 0.9:
        return ["Gzip", damaged(rng, text) if pick > 0.7 else text]
    content = _compressed(text)
    start = rng.randrange(len(content))
    spoilt = content[:start] + bytes([rng.randrange(256)]) + content[start + rng.randint(0, 9) :]
    return ["Binary", b64encode(spoilt).decode()]


def _inner(rng: Random) -> dict[str, Any]:
    return {"tenant": _shown("String", "x") | {"stringValue": nasty.text(rng)}}
