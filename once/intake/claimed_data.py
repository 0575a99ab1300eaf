"""Claimed data: reads what a message refers to, before the message is decoded.

Loaded only for messages that carry a reference.
"""

import msgspec

from once.claim_check.errors import InvalidClaim
from once.claim_check.reference import Reference, check_place
from once.claim_check.store import ClaimStore
from once.deadline import Deadline
from once.events.cloud_event import DATAREF, CloudEvent
from once.events.strict_json import parse

_PRODUCER = ""
"""Stands for the source of a body that is not read yet: a pointer always comes from a producer."""


def claimed_body(body: str, store: ClaimStore | None) -> str:
    """Return the text that a pointer of AWS's Extended Client libraries stands for.

    Any other body is returned unchanged.

    Raises:
        InvalidClaim: the pointer may not be followed.
        ClaimMissing, ClaimUnavailable, TooLarge, Unparseable: see `ClaimStore.read`.
    """
    if (reference := Reference.of_pointer(body)) is None:
        return body
    check_place(reference, source=_PRODUCER, event_id="")
    return _of(store).read(reference)


def with_claimed_data(
    event: CloudEvent, store: ClaimStore | None, *, max_bytes: int, deadline: Deadline | None
) -> CloudEvent:
    """Return an event with the data that its `dataref` refers to.

    Args:
        event: an event without data, whose source was checked.
        store: the claim-check bucket, if the consumer has one.
        max_bytes: the largest data to read.
        deadline: the time until which the data may be read.

    Raises:
        InvalidClaim: the reference may not be followed.
        ClaimMissing, ClaimUnavailable, TooLarge, Unparseable: see `ClaimStore.read`.
        OutOfTime: see `once.events.strict_json.parse`.
    """
    reference = Reference.of_uri(event.extensions[DATAREF])
    check_place(reference, source=event.source, event_id=event.id)
    data = parse(_of(store).read(reference), max_bytes=max_bytes, deadline=deadline)
    return msgspec.structs.replace(event, data=data)


def _of(store: ClaimStore | None) -> ClaimStore:
    if store is None:
        raise InvalidClaim(
            "it refers to data in S3, and this consumer reads none: set claim_check_mb= in its "
            "declaration in the CDK app"
        )
    return store
