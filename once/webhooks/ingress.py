"""Ingress: verifies a webhook, commits its capture, dedup record and event, and only then answers.

A duplicate is answered like the first delivery. A request that nothing durable was written for is
never answered with success, so that the provider sends it again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger

from once.claim_check.reference import Claim, Reference
from once.claim_check.store import ClaimStore
from once.commit.committer import Committer
from once.commit.request import CommitRequest
from once.commit.request_encoding import write_bodies
from once.commit.result import CommitOutcome, CommitResult
from once.deadline import Context, Deadline
from once.errors import KeyConflict, OnceError
from once.events.claimed_draft import ClaimPlace
from once.handlers.actions import Table
from once.handlers.transaction import Identity, Transaction
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.sdk import SDK, S3Client, s3_client
from once.webhooks.capture import Capture, Standing
from once.webhooks.endpoint import Endpoint
from once.webhooks.http import LambdaAnswer, Request, answer
from once.webhooks.identity import Webhook
from once.webhooks.secrets import SecretCache, SecretsClient, SecretsUnavailable
from once.webhooks.settings import CAPTURES, OBJECTS, WebhookSettings
from once.webhooks.signature import Verdict, verify

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_INLINE_BYTES = 256 * 1024
"""The largest body in the item of a capture; larger ones are objects in S3."""

_KEPT_HEADERS = ("content-type", "user-agent")
_TABLE = Table(CAPTURES)
_DURABLE = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE}
_AGAIN = {CommitOutcome.BUSY, CommitOutcome.CONTENDED, CommitOutcome.UNAFFECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookIngress:
    """Takes webhooks. Tests can replace each of its parts."""

    settings: WebhookSettings
    dynamodb: "DynamoDBClient"
    secrets: SecretCache
    logger: Logger
    s3: S3Client | None = None
    metrics: MetricsLog = field(default_factory=MetricsLog)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, settings: WebhookSettings, *, region: str | None = None) -> "WebhookIngress":
        """Return the ingress of a deployed function."""
        dynamodb = boto3.client("dynamodb", region, config=SDK)
        write_bodies(dynamodb)
        secrets: SecretsClient = boto3.client("secretsmanager", region, config=SDK)
        return cls(
            settings=settings,
            dynamodb=dynamodb,
            secrets=SecretCache(secrets, settings.secrets, time.time),
            logger=Logger(service=settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )

    def handle(self, event: Mapping[str, Any], context: Context) -> LambdaAnswer:
        """Answer one request of a function URL or an HTTP API."""
        deadline = Deadline(
            context.get_remaining_time_in_millis, self.settings.time_margin_ms, self.sleep
        )
        request = Request.of(event)
        endpoint = next((e for e in self.settings.endpoints if e.name == request.endpoint), None)
        if endpoint is None:
            return answer(404)
        if request.method != "POST":
            return answer(405)
        if len(request.body) > endpoint.limit:
            return self._refused(endpoint, 413, Metric.WEBHOOKS_TOO_LARGE)
        try:
            verdict = self._verdict(endpoint, request)
        except SecretsUnavailable:
            return self._refused(endpoint, 503, Metric.WEBHOOKS_FAILED)
        if verdict is not Verdict.GENUINE:
            forged = verdict is Verdict.FORGED
            name = Metric.WEBHOOKS_FORGED if forged else Metric.WEBHOOKS_STALE
            return self._refused(endpoint, 401, name)
        return self._take(Webhook.of(endpoint, request), deadline)

    def _verdict(self, endpoint: Endpoint, request: Request) -> Verdict:
        now = self.clock()
        verdict = verify(endpoint.profile, self.secrets.of(endpoint.name), request, now)
        if verdict is Verdict.FORGED:  # the secret may have been rotated
            known = self.secrets.of(endpoint.name, refreshed=True)
            verdict = verify(endpoint.profile, known, request, now)
        return verdict

    def _take(self, webhook: Webhook, deadline: Deadline) -> LambdaAnswer:
        challenge = _challenge_of(webhook)
        if challenge is not None:
            return answer(200, challenge)
        try:
            result = self._commit(webhook, _standing_of(webhook), deadline)
            if isinstance(result.cause, KeyConflict):
                result = self._commit(webhook, Standing.CONFLICT, deadline)
        except OnceError as error:
            self.logger.warning("webhook not captured", extra={"error": error.summary})
            return self._refused(webhook.endpoint, 503, Metric.WEBHOOKS_FAILED)
        if result.outcome not in _DURABLE:
            return self._refused(webhook.endpoint, 503, Metric.WEBHOOKS_FAILED)
        return answer(200)

    def _commit(self, webhook: Webhook, standing: Standing, deadline: Deadline) -> CommitResult:
        committer = Committer(self.dynamodb, self.settings, self.clock)
        transaction = self._transaction(webhook, standing)
        attempt = 0
        while True:
            request = CommitRequest.of(transaction, self.settings, self.clock())
            [result] = committer.commit([request])
            if result.outcome not in _AGAIN or not deadline.pause(attempt):
                return result
            attempt += 1

    def _transaction(self, webhook: Webhook, standing: Standing) -> Transaction:
        identity = webhook.identity(self.settings.consumer)
        if standing is Standing.CONFLICT:
            identity = Identity(f"{identity.pk}#{webhook.sha256}", webhook.sha256)
        transaction = Transaction(
            webhook.event,
            identity,
            tables=self.settings.tables,
            publishes=self.settings.publishes,
            read=lambda table, key: None,  # noqa: ARG005
            claims=self._claim_place,
            groups=self.settings.groups,
        )
        capture = self._capture(webhook, standing, identity.pk)
        transaction.put(_TABLE, capture.item())
        if standing is Standing.HANDED_ON:
            self._publish(transaction, webhook)
        self._store(transaction, webhook, capture)
        return transaction

    def _publish(self, transaction: Transaction, webhook: Webhook) -> None:
        assert webhook.event_type is not None  # noqa: S101
        transaction.publish(webhook.event_type, webhook.data, subject=webhook.endpoint.name)
        named = {
            "webhookid": webhook.id or webhook.sha256,
            "webhookendpoint": webhook.endpoint.name,
        }
        transaction.drafts[-1] = replace(transaction.drafts[-1], extensions=named)

    def _capture(self, webhook: Webhook, standing: Standing, pk: str) -> Capture:
        now, request, profile = self.clock(), webhook.request, webhook.endpoint.profile
        large = len(request.body) > _INLINE_BYTES
        return Capture(
            pk=pk,
            received_at=int(now * 1000),
            endpoint=webhook.endpoint.name,
            profile=profile.name,
            webhook_id=webhook.id,
            webhook_type=webhook.type,
            event_type=webhook.event_type if standing is Standing.HANDED_ON else None,
            standing=standing,
            verified=Verdict.GENUINE,
            method=request.method,
            path=request.path,
            headers=_kept_headers(webhook),
            body=None if large else request.body,
            body_object=f"{OBJECTS}{webhook.endpoint.name}/{webhook.sha256}" if large else None,
            body_bytes=len(request.body),
            body_sha256=webhook.sha256,
            expires_at=int(now) + self.settings.capture_seconds,
        )

    def _store(self, transaction: Transaction, webhook: Webhook, capture: Capture) -> None:
        """Store what is too large for an item, before the commit refers to it."""
        claims = [draft.claim for draft in transaction.drafts if draft.claim is not None]
        bucket = self.settings.claim_bucket
        if capture.body_object is not None and bucket is not None:
            claims.append(Claim(Reference(bucket, capture.body_object), webhook.request.body))
        if claims and self.s3 is not None and bucket is not None:
            ClaimStore(self.s3, bucket, self.settings.max_body_bytes).write(claims)

    @property
    def _claim_place(self) -> ClaimPlace | None:
        bucket = self.settings.claim_bucket
        if bucket is None:
            return None
        return ClaimPlace(bucket, self.settings.consumer, self.settings.max_body_bytes)

    def _refused(self, endpoint: Endpoint, status: int, metric: str) -> LambdaAnswer:
        self.metrics.report({metric: [1]}, self.clock(), endpoint=endpoint.name)
        return answer(status)


def _standing_of(webhook: Webhook) -> Standing:
    if webhook.event_type is not None:
        return Standing.HANDED_ON
    return Standing.UNREADABLE if webhook.data is None else Standing.CAPTURED


def _challenge_of(webhook: Webhook) -> str | None:
    challenge = webhook.endpoint.profile.challenge
    if challenge is None or not isinstance(webhook.data, dict):
        return None
    kind, field_name = challenge
    value = webhook.data.get(field_name)
    return value if webhook.data.get("type") == kind and isinstance(value, str) else None


def _kept_headers(webhook: Webhook) -> dict[str, str]:
    profile = webhook.endpoint.profile
    places = (profile.id, *profile.type)
    named = [place.removeprefix("header:") for place in places if place.startswith("header:")]
    names = {*_KEPT_HEADERS, *named, profile.signature_header, profile.timestamp_header}
    return {
        name: webhook.request.headers[name] for name in sorted(names & {*webhook.request.headers})
    }
