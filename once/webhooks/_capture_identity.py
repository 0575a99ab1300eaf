"""Capture identity: the dedup key and the fingerprint under which a webhook is captured."""

from once.errors import PermanentError
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.handlers.transaction import Identity
from once.webhooks.identity import Webhook

_BY_EVENT = Key.event()


def given_identity(webhook: Webhook, consumer: str) -> Identity | None:
    """Return a webhook's own identity.

    None if its id is too long for a key, or if its content has no canonical form.
    """
    try:
        return webhook.identity(consumer)
    except PermanentError:
        return None


def body_identity(webhook: Webhook, consumer: str) -> Identity:
    """Return the identity of a webhook without one of its own: the hash of its body."""
    return _identity(webhook, f"body:{webhook.sha256}", webhook.sha256, consumer)


def conflict_identity(webhook: Webhook, own: Identity, consumer: str) -> Identity:
    """Return the identity of a webhook whose own key belongs to other content.

    It is the same for each delivery of this content under this key.
    """
    event_id = f"conflict:{key_hash(own.pk)}:{own.fingerprint}"
    return _identity(webhook, event_id, own.fingerprint, consumer)


def _identity(webhook: Webhook, event_id: str, fingerprint: str, consumer: str) -> Identity:
    event = CloudEvent(id=event_id, source=webhook.endpoint.source, type="")
    return Identity(_BY_EVENT.of(event, fingerprint=fingerprint, consumer=consumer), fingerprint)
