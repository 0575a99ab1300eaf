"""Capture transaction: the writes that capture a webhook, and the event that it is handed on as."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from once.errors import InvalidWrite
from once.events.outgoing import Draft
from once.transaction import Identity, Table, Transaction
from once.webhooks._event_draft import event_draft, inbound_event
from once.webhooks._new_capture import Receipt, new_capture
from once.webhooks.capture import Capture, Conflict, Standing
from once.webhooks.identity import Webhook
from once.webhooks.settings import CAPTURES, WebhookSettings

if TYPE_CHECKING:
    from once.claim_check.reference import Claim
    from once.events.claimed_draft import ClaimPlace

_TABLE = Table(CAPTURES)


@dataclass(frozen=True, slots=True)
class CaptureTransaction:
    """A transaction, and the objects to store before it commits."""

    transaction: Transaction
    claims: "tuple[Claim, ...]"

    @classmethod
    def of(
        cls,
        receipt: Receipt,
        identity: Identity,
        standing: Standing,
        conflict: tuple[Conflict, str] | None,
        settings: WebhookSettings,
    ) -> "CaptureTransaction":
        """Return the transaction that captures a webhook.

        Args:
            receipt: the webhook.
            identity: its dedup key and its fingerprint.
            standing: what becomes of it.
            conflict: of a conflict, its reason and the key of the earlier webhook.
            settings: the function's settings.

        Raises:
            InvalidWrite, TooLarge: the webhook cannot be handed on.
        """
        transaction = Transaction(
            inbound_event(receipt.webhook),
            identity,
            tables=settings.tables,
            publishes=settings.publishes,
            read=lambda table, key: None,  # noqa: ARG005
        )
        kept = settings.capture_seconds
        capture = new_capture(
            receipt, standing, pk=identity.pk, conflict=conflict, kept_seconds=kept
        )
        transaction.put(_TABLE, capture.item())
        if standing is Standing.HANDED_ON:
            transaction.drafts.append(_draft(receipt.webhook, identity.pk, settings))
        return cls(transaction, tuple(_claims(transaction, capture, receipt.webhook, settings)))


def _draft(webhook: Webhook, pk: str, settings: WebhookSettings) -> Draft:
    event_type = webhook.event_type
    if event_type not in settings.publishes:
        raise InvalidWrite(f"{event_type} is not among what the ingress publishes: deploy again")
    return event_draft(
        webhook,
        event_type,
        pk,
        group_field=settings.groups.get(event_type),
        claims=_claim_place(settings),
    )


def _claim_place(settings: WebhookSettings) -> "ClaimPlace | None":
    if settings.claim_bucket is None:
        return None
    # Loaded late: each module costs time at a cold start.
    from once.events.claimed_draft import ClaimPlace

    return ClaimPlace(settings.claim_bucket, settings.consumer, settings.max_body_bytes)


def _claims(
    transaction: Transaction, capture: Capture, webhook: Webhook, settings: WebhookSettings
) -> "list[Claim]":
    claims = [draft.claim for draft in transaction.drafts if draft.claim is not None]
    if capture.body_object is not None and settings.claim_bucket is not None:
        from once.webhooks.capture_body import body_claim

        claims.append(body_claim(settings.claim_bucket, capture.body_object, webhook.request.body))
    return claims
