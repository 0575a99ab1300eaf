"""Ingress: verifies a webhook, commits its capture, dedup record and event, and only then answers.

The three are one transaction. A webhook that cannot be handed on is captured all the same.
Otherwise the provider would send it again until it gives up, and nothing of it would be left.

A duplicate is answered like the first delivery. A request that was not stored durably is never
answered with success, so that the provider sends it again.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import boto3

from once.business_tables import Table
from once.commit.committer import Committer
from once.commit.result import CommitOutcome, CommitResult, failed, hindered
from once.errors import (
    Contention,
    InvalidWrite,
    KeyConflict,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    RequestRefused,
    Throttled,
    Unexpected,
)
from once.events.identity import key_hash
from once.events.outgoing import ClaimPlace, Draft
from once.names import Metric
from once.runtime.deadline import Context, Deadline
from once.runtime.lambda_http import LambdaAnswer, Request, answer, body_bytes, route_of
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK, S3Client, logger_of, s3_client
from once.transaction import Identity, Transaction
from once.webhooks.captured_webhook import (
    INLINE_BYTES,
    Capture,
    CaptureStanding,
    Conflict,
    Verified,
)
from once.webhooks.endpoint import CAPTURES, Endpoint, WebhookSettings
from once.webhooks.signature import Authenticity, SecretCache, Secrets, is_usable, verify
from once.webhooks.webhook import Webhook

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.events.claim_check import Claim

_ANSWER_SECONDS = 0.5
"""Part of the time that the provider waits, which is reserved for the way of the answer."""

_OF_AWS = (Contention, OutcomeUnknown, RequestRefused)
"""Errors whose text names a service and AWS's error code, and no part of a request."""

_TABLE = Table[Any](CAPTURES)
_DURABLE = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE}
_OTHER_CONTENT = (KeyConflict, Unexpected)
"""Causes of a conflict. A record that cannot be read counts as other content: its webhook may have
been another one."""


@dataclass(frozen=True, slots=True)
class CountedAnswer:
    """The end of a request: its answer, and the metric that counts it.

    Attributes:
        standing: that of the capture which this request made; None for a duplicate and a refusal.
        key_hash: of the webhook's dedup key; empty if the webhook was refused.
        error: the reason of a failure, without any part of the request.
    """

    answer: LambdaAnswer
    metric: str
    standing: CaptureStanding | None = None
    key_hash: str = ""
    error: str = ""

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """Return the outcome of a webhook that the provider has to send again."""
        known = error if isinstance(error, OnceError) else Unexpected(error)
        text = f"{known.summary}: {error}" if isinstance(error, _OF_AWS) else known.summary
        return cls(answer(503), Metric.WEBHOOKS_FAILED, error=text)


_UNKNOWN_PATH = CountedAnswer(answer(404), Metric.WEBHOOKS_MISADDRESSED)
_OTHER_METHOD = CountedAnswer(answer(405, allow="POST"), Metric.WEBHOOKS_MISADDRESSED)
_TOO_LARGE = CountedAnswer(answer(413), Metric.WEBHOOKS_TOO_LARGE)
_REFUSED = {
    Authenticity.FORGED: CountedAnswer(answer(401), Metric.WEBHOOKS_FORGED),
    Authenticity.STALE: CountedAnswer(answer(401), Metric.WEBHOOKS_STALE),
}
_BY_STANDING = {
    CaptureStanding.UNREADABLE: Metric.WEBHOOKS_UNREADABLE,
    CaptureStanding.UNPUBLISHABLE: Metric.WEBHOOKS_UNPUBLISHABLE,
    CaptureStanding.CONFLICT: Metric.WEBHOOK_CONFLICTS,
}
_REJECTED = (Metric.WEBHOOKS_FORGED, Metric.WEBHOOKS_STALE, Metric.WEBHOOKS_TOO_LARGE)
_TOTALS = {
    **dict.fromkeys(_REJECTED, Metric.WEBHOOKS_REJECTED),
    **dict.fromkeys(
        (Metric.WEBHOOKS_FAILED, *_BY_STANDING.values()), Metric.WEBHOOKS_NOT_HANDED_ON
    ),
}
"""The metric that an alarm watches, by each of those that it adds up."""


@dataclass(frozen=True, kw_only=True)
class Ingress:
    """Takes webhooks. Tests can replace each of its parts.

    `s3` is None without a claim-check bucket; the clock is in seconds since the epoch.
    """

    settings: WebhookSettings
    dynamodb: "DynamoDBClient"
    secrets: SecretCache
    logger: "Logger"
    s3: S3Client | None = None
    metrics: MetricsLog = field(default_factory=MetricsLog)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    _warned: set[str] = field(default_factory=set, init=False)

    @cached_property
    def _endpoints(self) -> dict[str, Endpoint]:
        return {each.name: each for each in self.settings.endpoints}

    @cached_property
    def _committer(self) -> "CaptureCommitter":
        committer = Committer(self.dynamodb, self.settings, self.clock)
        return CaptureCommitter(committer, self.settings, self.s3)

    @classmethod
    def of(cls, settings: WebhookSettings, *, region: str | None = None) -> Self:
        dynamodb = boto3.client("dynamodb", region, config=SDK)
        secrets = boto3.client("secretsmanager", region, config=SDK)
        return cls(
            settings=settings,
            dynamodb=dynamodb,
            secrets=SecretCache(secrets, settings.secrets, time.time),
            logger=logger_of(settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )

    def handle(self, event: Mapping[str, Any], context: Context) -> LambdaAnswer:
        """Answer one request of a function URL or an HTTP API. No error leaves this function."""
        began, endpoint = self.clock(), None
        try:
            method, name = route_of(event)
            endpoint = self._endpoints.get(name)
            if endpoint is None:
                counted = _UNKNOWN_PATH
            elif method != "POST":
                counted = _OTHER_METHOD
            else:
                counted = self._received(endpoint, event, self._deadline(endpoint, context, began))
        except Exception as error:  # the provider sends the webhook again
            counted = CountedAnswer.failed(error)
        self._report(counted, endpoint, began)
        return counted.answer

    def _received(
        self, endpoint: Endpoint, event: Mapping[str, Any], deadline: Deadline
    ) -> CountedAnswer:
        limit = endpoint.limit
        if self.settings.claim_bucket is None:
            limit = min(limit, INLINE_BYTES)
        if body_bytes(event) > limit:  # before the body is decoded, and before its HMAC
            return _TOO_LARGE
        request = Request.of(event)
        if len(request.body) > limit:
            return _TOO_LARGE
        authenticity, verified = self._authenticity(endpoint, request)
        if authenticity in _REFUSED:
            return _REFUSED[authenticity]
        webhook = Webhook.of(endpoint, request)
        # A handshake is signed like a webhook. Its answer is all that is asked: nothing is kept.
        if (challenge := webhook.challenge) is not None:
            return CountedAnswer(answer(200, challenge), Metric.WEBHOOK_HANDSHAKES)
        received_at = int(self.clock() * 1000)
        pk, standing = self._committer.commit(webhook, verified, received_at, deadline)
        metric = Metric.WEBHOOK_DUPLICATES if standing is None else Metric.WEBHOOKS_TAKEN
        return CountedAnswer(answer(200), metric, standing, key_hash(pk))

    def _authenticity(self, endpoint: Endpoint, request: Request) -> tuple[Authenticity, Verified]:
        now, name = self.clock(), endpoint.name
        known = self.secrets.of(name)
        found = _authenticity_by(known, endpoint, request, now)
        if found[0] is not Authenticity.FORGED:
            return found
        fresh = self.secrets.of(name, refreshed=True)  # the secret may have been rotated
        self._warn_of_secrets(endpoint, fresh)
        return found if fresh == known else _authenticity_by(fresh, endpoint, request, now)

    def _warn_of_secrets(self, endpoint: Endpoint, secrets: Secrets) -> None:
        """Log once that no secret of an endpoint can verify anything: each request is forged."""
        given = [*secrets.current, *secrets.previous]
        if endpoint.name in self._warned or any(is_usable(endpoint.profile, s) for s in given):
            return
        self._warned.add(endpoint.name)
        fields = {
            "endpoint": endpoint.name,
            "profile": endpoint.profile.name,
            "secrets": len(given),
            "remedy": "put the secret as plain text, as the provider shows it: whsec_ or whpk_ and "
            "base64, one secret a line",
        }
        self.logger.warning("no secret has a usable form", extra=fields)

    def _deadline(self, endpoint: Endpoint, context: Context, began: float) -> Deadline:
        """Return the time that the function and the provider leave, whichever is shorter."""
        ends = began + endpoint.profile.answer_seconds - _ANSWER_SECONDS
        margin_ms = self.settings.time_margin_ms
        function_ms = lambda: context.get_remaining_time_in_millis() - margin_ms  # noqa: E731
        return Deadline.at(ends, self.clock, self.sleep, function_ms)

    def _report(self, counted: CountedAnswer, endpoint: Endpoint | None, began: float) -> None:
        """Write one line with the figures of a request that began at this time."""
        properties = {
            "endpoint": endpoint and endpoint.name,
            "standing": counted.standing and str(counted.standing),
            "key_hash": counted.key_hash,
        }
        given: dict[str, Any] = {name: value for name, value in properties.items() if value}
        # A captured webhook is answered with success, whether it can be counted or not.
        with suppress(Exception):
            figures: dict[str, list[float]] = {counted.metric: [1]}
            if counted.standing in _BY_STANDING:
                figures[_BY_STANDING[counted.standing]] = [1]
            figures |= {_TOTALS[each]: [1] for each in figures.keys() & _TOTALS.keys()}
            if counted.key_hash:
                figures[Metric.WEBHOOK_MS] = [round((self.clock() - began) * 1000, 3)]
            self.metrics.report(figures, self.clock(), **given)
            self.metrics.flush()
            if counted.error:
                extra = {**given, "error": counted.error}
                self.logger.warning("webhook not captured", extra=extra)


def _authenticity_by(
    secrets: Secrets, endpoint: Endpoint, request: Request, now: float
) -> tuple[Authenticity, Verified]:
    # `Secrets` has its fields in the order of `Verified`.
    for version, values in zip(Verified, secrets, strict=True):
        authenticity = verify(endpoint.profile, values, request, now)
        if authenticity is not Authenticity.FORGED:
            return authenticity, version
    return Authenticity.FORGED, Verified.CURRENT


@dataclass(frozen=True, slots=True)
class CaptureCommitter:
    """Commits verified webhooks. `s3` is None without a claim-check bucket."""

    committer: Committer
    settings: WebhookSettings
    s3: S3Client | None

    def commit(
        self, webhook: Webhook, verified: Verified, received_at: int, deadline: Deadline
    ) -> tuple[str, CaptureStanding | None]:
        """Capture a webhook, with attempts until the deadline.

        `received_at` is in milliseconds since the epoch. Returns the dedup key, and the standing;
        None for a duplicate.

        Raises:
            OnceError: it is not known to be captured.
        """
        capture = partial(
            webhook.capture,
            verified=verified,
            received_at=received_at,
            kept_seconds=self.settings.capture_seconds,
        )
        identity = webhook.identity(self.settings.consumer)
        standing = CaptureStanding.HANDED_ON
        if webhook.event_type is None:
            is_readable = webhook.data is not None
            standing = CaptureStanding.CAPTURED if is_readable else CaptureStanding.UNREADABLE
        first = capture(pk=identity.pk, standing=standing, conflict=None)
        result = self._attempt(webhook, identity, first, deadline)
        if standing is CaptureStanding.HANDED_ON and _is_unpublishable(result.cause):
            # No topic or consumer could take its event. It is captured without one.
            standing = CaptureStanding.UNPUBLISHABLE
            eventless = capture(pk=identity.pk, standing=standing, conflict=None)
            result = self._attempt(webhook, identity, eventless, deadline)
        if isinstance(result.cause, _OTHER_CONTENT):
            # Another webhook has its key. It is captured under a key of its own, beside that one.
            standing = CaptureStanding.CONFLICT
            conflict = _reason(webhook, result.cause), identity.pk
            identity = webhook.conflict_identity(self.settings.consumer)
            other = capture(pk=identity.pk, standing=standing, conflict=conflict)
            result = self._attempt(webhook, identity, other, deadline)
        if result.outcome not in _DURABLE:
            raise result.cause or hindered(result.outcome, "until the time was up")
        return identity.pk, standing if result.outcome is CommitOutcome.COMMITTED else None

    def _attempt(
        self, webhook: Webhook, identity: Identity, capture: Capture, deadline: Deadline
    ) -> CommitResult:
        """Commit the capture, with an event if the webhook is handed on."""
        transaction = Transaction(
            webhook.event,
            identity,
            self.settings,
            read=lambda table, key: None,  # noqa: ARG005, no handler runs that reads
        )
        try:
            transaction.put(_TABLE, capture.item())
            if capture.event_type is not None:
                transaction.drafts.append(self._draft(webhook, capture.event_type, identity.pk))
            # With the time of receipt, so that `rebuilt_event` can make the event again.
            request = self.committer.request(transaction, capture.received_at / 1000)
        except PermanentError as error:
            return failed(error)
        if claims := self._claims(transaction, capture, webhook.request.body):
            # A webhook that was captured before needs no object again.
            with suppress(OutcomeUnknown, Throttled):  # the commit finds out
                [known] = self.committer.look_up([transaction])
                if known is not None:
                    return known
            self._store(claims)
        return self.committer.commit_alone(request, deadline)

    def _draft(self, webhook: Webhook, event_type: str, pk: str) -> Draft:
        settings = self.settings
        if event_type not in settings.publishes:
            raise InvalidWrite(
                f"{event_type} is not among what the ingress publishes: deploy again"
            )
        bucket, most = settings.claim_bucket, settings.max_body_bytes
        place = None if bucket is None else ClaimPlace(bucket, settings.consumer, most)
        group_field = settings.groups.get(event_type)
        return webhook.draft(event_type, pk, group_field=group_field, claims=place)

    def _claims(self, transaction: Transaction, capture: Capture, body: bytes) -> "list[Claim]":
        """Return the objects for data and body that are too large for an item."""
        claims = [draft.claim for draft in transaction.drafts if draft.claim is not None]
        if capture.body_object is not None and self.settings.claim_bucket is not None:
            # Loaded late: most webhooks fit into an item.
            from once.events.claim_check import Claim, Reference

            claims.append(Claim(Reference(self.settings.claim_bucket, capture.body_object), body))
        return claims

    def _store(self, claims: "list[Claim]") -> None:
        """Store objects before the commit refers to them."""
        bucket = self.settings.claim_bucket
        if bucket is None or self.s3 is None:
            raise RequestRefused("there is no client of S3 to store an object")
        from once.events.claim_check import ClaimStore

        ClaimStore(self.s3, bucket, self.settings.max_body_bytes).write(claims)


def _is_unpublishable(cause: OnceError | None) -> bool:
    """Return whether an attempt failed because of the event, which is part of its commit."""
    return isinstance(cause, PermanentError) and not isinstance(cause, KeyConflict)


def _reason(webhook: Webhook, cause: OnceError | None) -> Conflict:
    if isinstance(cause, Unexpected):
        return Conflict.RECORD
    return Conflict.CONTENT if webhook.is_keyed_by_id else Conflict.TYPE
