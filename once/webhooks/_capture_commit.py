"""Capture commit: capture, dedup record and event of a webhook in one transaction.

A webhook that cannot be handed on is captured all the same. Otherwise the provider would send it
again until it gives up, and nothing of it would be left.
"""

from dataclasses import dataclass

from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.result import CommitOutcome, CommitResult, failed
from once.deadline import Deadline
from once.errors import (
    Contention,
    KeyConflict,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    RequestRefused,
    Unexpected,
)
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.sdk import S3Client
from once.transaction import Identity
from once.webhooks._capture_transaction import CaptureTransaction
from once.webhooks._new_capture import Receipt
from once.webhooks.capture import Conflict, Standing
from once.webhooks.identity import Webhook
from once.webhooks.settings import WebhookSettings

_DURABLE = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE}
_BY_EVENT = Key.event()
_AGAIN = {CommitOutcome.BUSY, CommitOutcome.CONTENDED, CommitOutcome.UNAFFECTED}


@dataclass(frozen=True, slots=True)
class Captured:
    """A webhook that is durable: its dedup key, and its standing if it was captured now.

    `standing` is None for a duplicate.
    """

    pk: str
    standing: Standing | None


@dataclass(frozen=True, slots=True)
class CaptureCommitter:
    """Commits webhooks.

    Attributes:
        committer: sends transactions to DynamoDB.
        settings: the function's settings.
        s3: a client of S3; None without a claim-check bucket.
    """

    committer: Committer
    settings: WebhookSettings
    s3: S3Client | None

    def commit(self, receipt: Receipt, deadline: Deadline) -> Captured:
        """Capture a webhook, with attempts until the deadline.

        Raises:
            OnceError: it is not known to be captured.
        """
        identity = receipt.webhook.identity(self.settings.consumer)
        standing = _standing(receipt.webhook)
        conflict: tuple[Conflict, str] | None = None
        result = self._attempt(receipt, identity, standing, conflict, deadline)
        while instead := _instead(standing, result.cause):
            standing = instead
            if standing is Standing.CONFLICT:
                conflict = _reason(receipt.webhook, result.cause), identity.pk
                consumer = self.settings.consumer
                identity = _conflict_identity(receipt.webhook, identity, consumer)
            result = self._attempt(receipt, identity, standing, conflict, deadline)
        if result.outcome not in _DURABLE:
            raise result.cause or Contention("others kept writing the record until the time was up")
        is_new = result.outcome is CommitOutcome.COMMITTED
        return Captured(identity.pk, standing if is_new else None)

    def _attempt(
        self,
        receipt: Receipt,
        identity: Identity,
        standing: Standing,
        conflict: tuple[Conflict, str] | None,
        deadline: Deadline,
    ) -> CommitResult:
        try:
            made = CaptureTransaction.of(receipt, identity, standing, conflict, self.settings)
            now = receipt.received_at / 1000
            request = CommitRequest.of(made.transaction, self.settings, now)
        except PermanentError as error:
            return failed(error)
        if made.claims:
            if known := self._known(request):
                return known
            self._store(made)
        return self._send(request, deadline)

    def _known(self, request: CommitRequest) -> CommitResult | None:
        """Return the result of a webhook that was captured before: it needs no object again."""
        try:
            [result] = self.committer.look_up([request.transaction])
        except OutcomeUnknown:  # the commit finds out
            return None
        return result

    def _send(self, request: CommitRequest, deadline: Deadline) -> CommitResult:
        attempt = 0
        while True:
            [result] = self.committer.commit([request])
            if not _is_open(result) or not deadline.pause(attempt):
                return result
            attempt += 1

    def _store(self, made: CaptureTransaction) -> None:
        """Store what is too large for an item, before the commit refers to it."""
        bucket = self.settings.claim_bucket
        if bucket is None or self.s3 is None:
            raise RequestRefused("there is no client of S3 to store an object")
        # Loaded late: each module costs time at a cold start.
        from once.claim_check.store import ClaimStore

        ClaimStore(self.s3, bucket, self.settings.max_body_bytes).write(made.claims)


def _standing(webhook: Webhook) -> Standing:
    if webhook.event_type is not None:
        return Standing.HANDED_ON
    return Standing.UNREADABLE if webhook.data is None else Standing.CAPTURED


def _instead(standing: Standing, cause: OnceError | None) -> Standing | None:
    """Return the standing to capture a webhook with, after an attempt with another one failed."""
    # A record that cannot be read counts as other content: its webhook may have been another.
    if isinstance(cause, KeyConflict | Unexpected):
        return None if standing is Standing.CONFLICT else Standing.CONFLICT
    is_event = isinstance(cause, PermanentError) and standing is Standing.HANDED_ON
    return Standing.UNPUBLISHABLE if is_event else None


def _reason(webhook: Webhook, cause: OnceError | None) -> Conflict:
    if isinstance(cause, Unexpected):
        return Conflict.RECORD
    return Conflict.CONTENT if webhook.is_keyed_by_id else Conflict.TYPE


def _conflict_identity(webhook: Webhook, own: Identity, consumer: str) -> Identity:
    """Return the identity of a webhook whose own key belongs to a webhook that differs from it.

    It is the same for each delivery of this content and type under this key.
    """
    event_id = f"conflict:{key_hash(own.pk)}:{own.fingerprint}"
    event = CloudEvent(id=event_id, source=webhook.endpoint.source, type="")
    pk = _BY_EVENT.of(event, fingerprint=own.fingerprint, consumer=consumer)
    return Identity(pk, own.fingerprint)


def _is_open(result: CommitResult) -> bool:
    """Return whether the same transaction may still commit, now or by an earlier attempt."""
    return result.outcome in _AGAIN or isinstance(result.cause, OutcomeUnknown)
