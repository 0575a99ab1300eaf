"""Handshake: the request by which a provider confirms that an address takes its webhooks."""

from once.webhooks.identity import Webhook


def challenge_of(webhook: Webhook) -> str | None:
    """Return the text that answers a handshake; None for a webhook."""
    challenge = webhook.endpoint.profile.challenge
    if challenge is None or not isinstance(webhook.data, dict):
        return None
    kind, field = challenge
    value = webhook.data.get(field)
    return value if webhook.data.get("type") == kind and isinstance(value, str) else None
