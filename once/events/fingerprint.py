"""The fingerprint: what must not differ between two deliveries under one key."""

from collections.abc import Collection

from once.events.canonical_json import digest
from once.events.cloud_event import CloudEvent


def fingerprint(event: CloudEvent, *, volatile: Collection[str] = ()) -> str:
    """Return the SHA-256, in hexadecimal, of the event's type, subject and data.

    `time` and the extension attributes are left out: producers stamp them anew on a retry.

    Args:
        event: the event.
        volatile: top-level fields of the data that may differ between two deliveries.
    """
    data = event.data
    if volatile and isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in volatile}
    return digest({"type": event.type, "subject": event.subject, "data": data})
