"""An ingress over AWS in memory, and signed requests as a function URL passes them on."""

import base64
import hmac
import json
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from io import StringIO
from typing import Any
from uuid import uuid4

import boto3
from aws_lambda_powertools import Logger
from msgspec.structs import replace

from once.events.outgoing import OutgoingEvent, events_in
from once.names import Metric, Record
from once.runtime.lambda_http import Request
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK
from once.settings import TableSettings
from once.testing.events import FakeContext
from once.webhooks.captured_webhook import Capture, CaptureAttribute
from once.webhooks.endpoint import (
    CAPTURES,
    GITHUB,
    PROFILES,
    SLACK,
    STRIPE,
    Endpoint,
    Profile,
    WebhookSettings,
    hmac_profile,
)
from once.webhooks.ingress import Ingress
from once.webhooks.signature import Authenticity, SecretCache, sign, verify

SECRET = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw=="  # decodes: Standard Webhooks takes base64
NOW = 1_800_000_000.0
ENDPOINTS = (
    Endpoint("stripe", STRIPE, types=("charge.refunded",)),
    Endpoint("github", GITHUB, types=("push",)),
    Endpoint("slack", SLACK, types=("app_mention",)),
)

_TOTALS = {
    Metric.WEBHOOKS_NOT_HANDED_ON: {
        *(Metric.WEBHOOKS_FAILED, Metric.WEBHOOK_CONFLICTS, Metric.WEBHOOKS_UNREADABLE),
        Metric.WEBHOOKS_UNPUBLISHABLE,
    },
    Metric.WEBHOOKS_REJECTED: {
        *(Metric.WEBHOOKS_FORGED, Metric.WEBHOOKS_STALE, Metric.WEBHOOKS_TOO_LARGE)
    },
}
"""The metrics that alarms watch, with those that each adds up."""


class Service:
    """An ingress with its tables and secrets; call it inside `moto.mock_aws`."""

    secret_string = SECRET
    """The content of each endpoint's secret."""

    def __init__(self, endpoints: tuple[Endpoint, ...] = ENDPOINTS, **settings: Any) -> None:
        self.now = NOW
        self.paused = 0
        self.dynamodb = boto3.client("dynamodb", "us-east-1")
        self.s3 = boto3.client("s3", "us-east-1")
        self.lines: list[str] = []
        self.log = StringIO()
        self._create_tables()
        self.secretsmanager = boto3.client("secretsmanager", "us-east-1")
        arns = {
            each.name: self.secretsmanager.create_secret(
                Name=each.name, SecretString=self.secret_string
            )["ARN"]
            for each in endpoints
        }
        self.settings = replace(
            WebhookSettings(
                consumer="webhooks",
                dedup_table="dedup",
                tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
                dedup_window_seconds=45 * 86400,
                publishes=tuple(t for each in endpoints for t in each.event_types),
                endpoints=endpoints,
                secrets=arns,
                capture_seconds=30 * 86400,
            ),
            **settings,
        )
        self.sender = boto3.client("dynamodb", "us-east-1", config=SDK)
        self.ingress = Ingress(
            settings=self.settings,
            dynamodb=self.sender,
            secrets=SecretCache(self.secretsmanager, arns, self.clock),
            logger=Logger(service=uuid4().hex, stream=self.log),
            s3=self.s3,
            metrics=MetricsLog(service="webhooks", write=self.lines.append),
            clock=self.clock,
            sleep=self._sleep,
        )

    def _create_tables(self) -> None:
        for table in ("dedup", CAPTURES):
            self.dynamodb.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )

    def clock(self) -> float:
        return self.now

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.paused += 1
        assert self.now < NOW + 86400, "the ingress never stops trying"

    def post(self, event: Mapping[str, Any], *, remaining_ms: int = 30_000) -> int:
        """Let the ingress answer one event of Lambda; return the status."""
        return self.ingress.handle(event, FakeContext(remaining_ms))["statusCode"]

    def counted(self) -> list[set[str]]:
        """Return the metrics that count one in each line that was printed, without the totals."""
        counted = []
        for line in self.properties():
            names = {each["Name"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
            names -= {Metric.WEBHOOK_MS}
            assert [line[name] for name in names] == [[1]] * len(names)
            totals = {total for total, single in _TOTALS.items() if names & single}
            assert names & _TOTALS.keys() == totals
            counted.append(names - totals)
        return counted

    def properties(self) -> list[dict[str, Any]]:
        """Return the fields of each line that was printed."""
        return [json.loads(line) for line in self.lines]

    def captures(self) -> list[Capture]:
        table = boto3.resource("dynamodb", "us-east-1").Table(CAPTURES)
        return [Capture.read(item) for item in table.scan()["Items"]]

    def events(self) -> list[OutgoingEvent]:
        records = self.dynamodb.scan(TableName="dedup")["Items"]
        return [each for record in records if Record.OUTBOX in record for each in events_in(record)]


def stripe_request(body: bytes, *, at: float = NOW, secret: str = SECRET) -> dict[str, Any]:
    """Return Lambda's event for a webhook of Stripe."""
    signature = hmac.new(secret.encode(), f"{int(at)}.".encode() + body, sha256).hexdigest()
    headers = {"stripe-signature": f"t={int(at)},v1={signature}"}
    return request("/stripe", body, {"content-type": "application/json", **headers})


def stripe_body(event_id: str = "evt_1", **more: Any) -> bytes:
    """Return the body of a refund."""
    return json.dumps({"id": event_id, "type": "charge.refunded", **more}).encode()


def github_request(
    body: bytes, *, delivery: str = "d-1", event: str = "push", **headers: str
) -> dict[str, Any]:
    """Return Lambda's event for a webhook of GitHub."""
    signature = hmac.new(SECRET.encode(), body, sha256).hexdigest()
    signed = {"x-hub-signature-256": f"sha256={signature}"}
    named = {"x-github-delivery": delivery, "x-github-event": event}
    return request("/github", body, {**signed, **named, **headers})


def slack_request(body: bytes) -> dict[str, Any]:
    """Return Lambda's event for a webhook of Slack."""
    signature = hmac.new(SECRET.encode(), f"v0:{int(NOW)}:".encode() + body, sha256).hexdigest()
    signed = {"x-slack-signature": f"v0={signature}", "x-slack-request-timestamp": str(int(NOW))}
    return request("/slack", body, {"content-type": "application/json", **signed})


def request(
    path: str, body: bytes, headers: Mapping[str, str], *, method: str = "POST"
) -> dict[str, Any]:
    """Return Lambda's event of payload format 2.0 for a request."""
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": dict(headers),
        "requestContext": {"http": {"method": method, "path": path}},
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }


# Secrets, and requests that are verified with them.


GENUINE, FORGED, STALE = Authenticity
SIGNED_AT = 1_800_000_000
PAID = json.dumps({"id": "evt_1", "type": "paid", "text": "é {id} {0}"}).encode()
STANDARD_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PREVIOUS = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
SECRET_KEY = (
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
GENERIC = hmac_profile(
    "acme",
    signature_header="x-acme",
    signed="{id}|{timestamp}|{body}",
    id="header:x-acme-id",
    timestamp_header="x-acme-time",
    retry_seconds=60,
)
ALL = [*PROFILES.values(), GENERIC]
signed_by = partial(sign, webhook_id="msg_1", now=SIGNED_AT)


def check(
    profile: Profile, headers: Any, body: bytes = PAID, *secrets: str, now: float = SIGNED_AT
) -> Authenticity:
    return verify(profile, secrets or (STANDARD_KEY,), Request("POST", "/a", headers, body), now)
