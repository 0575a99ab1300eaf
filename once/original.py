"""The message as its producer sent it, through however many quarantines and redrives it has gone.

A dead letter carries the producer's attributes as JSON in one attribute, since SQS allows ten in
all. What does not fit beside the reason, or holds what SQS does not take, goes compressed into a
binary attribute as a whole: text that SQS accepts always compresses by more than the reason needs.
"""

import base64
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError, Struct, convert

from once.contract import DeadLetter, Limits

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

MOVED = f"The message is in the attribute {DeadLetter.ORIGINAL_GZIP}"

_OWN = "once-"
_GZIP_BITS = 16 + zlib.MAX_WBITS
# A message has at most 1 MiB, to which escaping in JSON can add: anything longer is a bomb.
_LARGEST = 8 * Limits.MESSAGE_BYTES


Attributes = dict[str, dict[str, Any]]


class Original(Struct, frozen=True, forbid_unknown_fields=True):
    """Body and message attributes, the latter in the form in which Lambda shows them."""

    body: str
    attributes: Attributes

    @classmethod
    def of(cls, record: "SQSRecord") -> "Original":
        """Read a message; of one that was quarantined before, what it was then."""
        attributes = record.raw_event.get("messageAttributes", {})
        own = {name: value for name, value in attributes.items() if not name.startswith(_OWN)}
        try:
            if packed := attributes.get(DeadLetter.ORIGINAL_GZIP):
                return convert(json.loads(_inflated(packed["binaryValue"])), cls)
            if kept := attributes.get(DeadLetter.ATTRIBUTES):
                earlier = convert(json.loads(kept["stringValue"]), Attributes)
                return cls(record.body, {**earlier, **own})
        except (KeyError, TypeError, ValueError, RecursionError, MsgspecError, zlib.error):
            pass  # these attributes are not ours, whatever their names say
        return cls(record.body, own)

    def plain(self) -> dict[str, Any]:
        """Return the attributes that carry on the producer's, with the body as it is."""
        if not self.attributes:
            return {}
        kept = json.dumps(self.attributes, ensure_ascii=False)
        return {DeadLetter.ATTRIBUTES: {"DataType": "String", "StringValue": kept}}

    def packed(self) -> dict[str, Any]:
        """Return the attribute that carries on body and attributes, with `MOVED` for a body."""
        content = json.dumps(
            {"body": self.body, "attributes": self.attributes}, ensure_ascii=False
        ).encode(errors="surrogatepass")
        # The fastest level: the higher ones take seconds on some texts, and time is short.
        value = gzip.compress(content, compresslevel=1, mtime=0)
        return {DeadLetter.ORIGINAL_GZIP: {"DataType": "Binary", "BinaryValue": value}}


def _inflated(value: str) -> str:
    machine = zlib.decompressobj(wbits=_GZIP_BITS)
    content = machine.decompress(base64.b64decode(value), _LARGEST)
    if machine.unconsumed_tail:
        raise ValueError(f"more than {_LARGEST} bytes")
    return content.decode(errors="surrogatepass")
