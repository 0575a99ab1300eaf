"""Capture identity: the dedup key of a webhook whose own key belongs to other content."""

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.handlers.transaction import Identity
from once.webhooks.identity import Webhook

_BY_EVENT = Key.event()


def conflict_identity(webhook: Webhook, own: Identity, consumer: str) -> Identity:
    """Return the identity of a webhook whose own key belongs to other content.

    It is the same for each delivery of this content under this key.
    """
    event_id = f"conflict:{key_hash(own.pk)}:{own.fingerprint}"
    event = CloudEvent(id=event_id, source=webhook.endpoint.source, type="")
    pk = _BY_EVENT.of(event, fingerprint=own.fingerprint, consumer=consumer)
    return Identity(pk, own.fingerprint)
