"""Ingress: verifies a webhook, commits its capture, dedup record and event, and only then answers.

A duplicate is answered like the first delivery. A request that nothing durable was written for is
never answered with success, so that the provider sends it again.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger

from once.commit.committer import Committer
from once.commit.request_encoding import write_bodies
from once.deadline import Context, Deadline
from once.events.dedup_key import key_hash
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.sdk import SDK, S3Client, s3_client
from once.webhooks._capture_commit import CaptureCommitter
from once.webhooks._handshake import challenge_of
from once.webhooks._new_capture import Receipt
from once.webhooks._report import Outcome, Report
from once.webhooks.capture import INLINE_BYTES, Verified
from once.webhooks.endpoint import Endpoint
from once.webhooks.http import LambdaAnswer, Request, RequestLine, answer, body_bytes
from once.webhooks.identity import Webhook
from once.webhooks.secrets import SecretCache, Secrets, SecretsClient
from once.webhooks.settings import WebhookSettings
from once.webhooks.signature import Verdict, verify

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ANSWER_SECONDS = 0.5
"""Part of the time that the provider waits, which is reserved for the way of the answer."""

_UNKNOWN_PATH = Outcome(answer(404), Metric.WEBHOOKS_MISADDRESSED)
_OTHER_METHOD = Outcome(answer(405, allow="POST"), Metric.WEBHOOKS_MISADDRESSED)
_TOO_LARGE = Outcome(answer(413), Metric.WEBHOOKS_TOO_LARGE)
_REFUSED = {
    Verdict.FORGED: Outcome(answer(401), Metric.WEBHOOKS_FORGED),
    Verdict.STALE: Outcome(answer(401), Metric.WEBHOOKS_STALE),
}


class WebhookIngress:
    """Takes webhooks. Tests can replace each of its parts.

    Args:
        settings: the function's settings.
        dynamodb: a DynamoDB client that takes encoded entries; see `once.commit.request_encoding`.
        secrets: the secrets of the endpoints.
        logger: logs the requests that failed.
        s3: a client of S3; None without a claim-check bucket.
        metrics: prints the figures.
        clock: the time, in seconds since the epoch.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        *,
        settings: WebhookSettings,
        dynamodb: "DynamoDBClient",
        secrets: SecretCache,
        logger: Logger,
        s3: S3Client | None = None,
        metrics: MetricsLog | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._endpoints = {each.name: each for each in settings.endpoints}
        self._secrets = secrets
        self._committer = CaptureCommitter(Committer(dynamodb, settings, clock), settings, s3)
        self._report = Report(metrics or MetricsLog(), logger, clock)
        self._clock = clock
        self._sleep = sleep

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
        """Answer one request of a function URL or an HTTP API. No error leaves this function."""
        began, endpoint = self._clock(), None
        try:
            line = RequestLine.of(event)
            endpoint = self._endpoints.get(line.endpoint)
            if endpoint is None:
                outcome = _UNKNOWN_PATH
            elif line.method != "POST":
                outcome = _OTHER_METHOD
            else:
                outcome = self._received(endpoint, event, self._deadline(endpoint, context, began))
        except Exception as error:  # the provider sends the webhook again
            outcome = Outcome.failed(error)
        self._report.write(outcome, endpoint, began)
        return outcome.answer

    def _received(
        self, endpoint: Endpoint, event: Mapping[str, Any], deadline: Deadline
    ) -> Outcome:
        limit = self._limit(endpoint)
        if body_bytes(event) > limit:  # before the body is decoded, and before its HMAC
            return _TOO_LARGE
        request = Request.of(event)
        if len(request.body) > limit:
            return _TOO_LARGE
        verdict, verified = self._verdict(endpoint, request)
        if verdict in _REFUSED:
            return _REFUSED[verdict]
        return self._taken(Webhook.of(endpoint, request), verified, deadline)

    def _limit(self, endpoint: Endpoint) -> int:
        has_bucket = self._settings.claim_bucket is not None
        return endpoint.limit if has_bucket else min(endpoint.limit, INLINE_BYTES)

    def _verdict(self, endpoint: Endpoint, request: Request) -> tuple[Verdict, Verified]:
        now, name = self._clock(), endpoint.name
        known = self._secrets.of(name)
        found = _verdict_by(known, endpoint, request, now)
        if found[0] is not Verdict.FORGED:
            return found
        fresh = self._secrets.of(name, refreshed=True)  # the secret may have been rotated
        return found if fresh == known else _verdict_by(fresh, endpoint, request, now)

    def _taken(self, webhook: Webhook, verified: Verified, deadline: Deadline) -> Outcome:
        challenge = challenge_of(webhook)
        if challenge is not None:
            return Outcome(answer(200, challenge), Metric.WEBHOOK_HANDSHAKES)
        receipt = Receipt(webhook, verified, int(self._clock() * 1000))
        captured = self._committer.commit(receipt, deadline)
        is_new = captured.standing is not None
        metric = Metric.WEBHOOKS_TAKEN if is_new else Metric.WEBHOOK_DUPLICATES
        return Outcome(answer(200), metric, captured.standing, key_hash(captured.pk))

    def _deadline(self, endpoint: Endpoint, context: Context, began: float) -> Deadline:
        """Return the time that the function and the provider leave, whichever is shorter."""
        ends = began + endpoint.profile.answer_seconds - _ANSWER_SECONDS

        def remaining_ms() -> int:
            of_function = context.get_remaining_time_in_millis() - self._settings.time_margin_ms
            return min(of_function, int((ends - self._clock()) * 1000))

        return Deadline(remaining_ms, 0, self._sleep)


def _verdict_by(
    secrets: Secrets, endpoint: Endpoint, request: Request, now: float
) -> tuple[Verdict, Verified]:
    """Return the verdict, and the version of the secret that gives it."""
    for version, values in zip(Verified, secrets, strict=True):
        verdict = verify(endpoint.profile, values, request, now)
        if verdict is not Verdict.FORGED:
            return verdict, version
    return Verdict.FORGED, Verified.CURRENT
