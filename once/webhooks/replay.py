"""Replay: the event of a captured webhook, with the id under which the relay published it."""

from typing import TYPE_CHECKING

from once.errors import Unparseable, Unpublishable
from once.events.identity import consumer_of
from once.events.outgoing import OutgoingEvent, events_in, written
from once.names import Record
from once.webhooks.capture import Capture
from once.webhooks.endpoint import Endpoint
from once.webhooks.webhook import Request, Webhook

if TYPE_CHECKING:
    from once.claim_check import Claim
    from once.events.outgoing import ClaimPlace


def rebuilt_event(
    capture: Capture,
    body: bytes,
    endpoint: Endpoint,
    *,
    group_field: str | None = None,
    claims: "ClaimPlace | None" = None,
) -> "tuple[OutgoingEvent, Claim | None]":
    """Return the event of a capture, and its data if that is an object to store before.

    Of a webhook that was handed on, it is the event that was published, byte for byte: its
    consumers recognise it as a duplicate. Of another webhook, the event gets an id of its own.

    Args:
        capture: the capture.
        body: its body; see `once.webhooks.capture`.
        endpoint: the endpoint, as it is now.
        group_field: the field of the data that gives the message group, if the type has one.
        claims: the place of large data; None without a claim-check bucket.

    Raises:
        Unpublishable: the endpoint does not hand on the webhook's type.
        Unparseable: the body is not strict JSON.
        InvalidWrite, TooLarge: no topic or consumer could take the event.
    """
    event_type = capture.event_type
    if event_type is None:
        if capture.webhook_type not in endpoint.types:
            raise Unpublishable(
                f"the endpoint {endpoint.name} does not hand its type on: add the type to types= "
                "of the endpoint in the CDK app and deploy, or send it to a URL"
            )
        event_type = endpoint.event_type(capture.webhook_type)
    webhook = Webhook.of(endpoint, Request(capture.method, capture.path, capture.headers, body))
    if webhook.data is None:
        raise Unparseable("the body is not strict JSON, so it can be sent to a URL only")
    draft = webhook.draft(event_type, capture.pk, group_field=group_field, claims=claims)
    outbox = written(
        [draft],
        inbound=webhook.event,
        pk=capture.pk,
        consumer=consumer_of(capture.pk),
        now=capture.received_at / 1000,
    )
    [event] = events_in({Record.OUTBOX: {"S": outbox}})
    return event, draft.claim
