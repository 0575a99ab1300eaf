"""Claimed draft: an event whose data is too large for the topic or for the dedup record.

Its data is stored in S3 before the commit, and the event carries `dataref`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from once.claim_check import Claim, Reference, event_key
from once.errors import InvalidWrite, OnceError, TooLarge
from once.events.dedup_key import key_hash
from once.events.outgoing import Draft, event_id_of
from once.events.strict_json import parse
from once.schema import Limits

_INLINE_BYTES = Limits.TOPIC_MESSAGE_BYTES - 16 * 1024
"""The most data of one event. The rest of a message is its envelope."""
_OUTBOX_BYTES = 300 * 1024
"""The most data of all events in a record, of the 400 KB of an item."""


@dataclass(frozen=True, slots=True)
class ClaimPlace:
    """The place of a consumer's objects: the bucket, its identity, and the largest object."""

    bucket: str
    consumer: str
    max_bytes: int

    def fitting(self, each: Draft, drafts: Sequence[Draft], pk: str) -> Draft:
        """Return a draft, with a claim in place of data that does not fit.

        Args:
            each: the draft.
            drafts: those before it in the same record.
            pk: the partition key of the record.

        Raises:
            InvalidWrite: no consumer could read the data.
            TooLarge: it is over the largest object.
        """
        text = _json(each)
        used = sum(one.inline_bytes for one in drafts)
        if len(text) <= _INLINE_BYTES and used + len(text) <= _OUTBOX_BYTES:
            return replace(each, inline_bytes=len(text))
        self._check(each.type, text)
        content = text.encode()
        event_id = event_id_of(key_hash(pk), len(drafts))
        reference = Reference(self.bucket, event_key(self.consumer, event_id, content))
        return replace(each, data=None, claim=Claim(reference, content))

    def _check(self, event_type: str, text: str) -> None:
        # Consumers parse strictly. Refused before the commit, data is not refused by each of them.
        try:
            parse(text, max_bytes=self.max_bytes)
        except TooLarge as error:
            raise TooLarge(f"{event_type} is too large for the claim check: {error}") from None
        except OnceError as error:
            raise InvalidWrite(f"{event_type} could be read by no consumer: {error}") from None


def _json(each: Draft) -> str:
    try:
        return json.dumps(each.data, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidWrite(f"{each.type} could be read by no consumer: {error}") from None
