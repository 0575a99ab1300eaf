"""Event draft: the event that a webhook is handed on as."""

from dataclasses import replace
from typing import TYPE_CHECKING

from once.events.cloud_event import CloudEvent
from once.events.outgoing import Draft, parsed_draft
from once.webhooks.identity import Webhook

if TYPE_CHECKING:
    from once.events.claimed_draft import ClaimPlace

TEXT_CHARACTERS = 1024
"""The most of an id or a type that is kept: no provider documents as much."""


def inbound_event(webhook: Webhook) -> CloudEvent:
    """Return a webhook as the event that its dedup record is about, without its data."""
    endpoint = webhook.endpoint
    event_type = endpoint.event_type(webhook.type or "untyped")[:TEXT_CHARACTERS]
    return CloudEvent(id=webhook.sha256, source=endpoint.source, type=event_type)


def event_draft(
    webhook: Webhook,
    event_type: str,
    pk: str,
    *,
    group_field: str | None,
    claims: "ClaimPlace | None",
) -> Draft:
    """Return the draft of a webhook's event: its data is the JSON of the body.

    Args:
        webhook: the webhook.
        event_type: the type of the event.
        pk: the dedup key of the webhook.
        group_field: the field of the data that gives the message group, if the type has one.
        claims: the place of large data; None without a claim-check bucket.

    Raises:
        InvalidWrite: the data does not give the message group, or no consumer could read it.
        TooLarge: with a claim-check bucket, the data is over its largest object.
    """
    name = webhook.endpoint.name
    each = parsed_draft(event_type, webhook.data, name, grouped_by=group_field)
    if claims is not None:
        each = claims.fitting(each, (), pk)
    extensions = {"webhookid": webhook.id or webhook.sha256, "webhookendpoint": name}
    return replace(each, extensions=extensions)
