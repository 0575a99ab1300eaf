"""A deployment with a webhook ingress, and a server that keeps the requests which it receives."""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
from aws_lambda_powertools import Logger

from once.names import StackOutput
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK
from once.settings import TableSettings
from once.testing import FakeContext
from once.webhooks.capture import BY_TIME, Capture, CaptureAttribute, Standing, Verified
from once.webhooks.endpoint import (
    CAPTURES,
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Endpoint,
    Profile,
    WebhookSettings,
)
from once.webhooks.ingress import WebhookIngress
from once.webhooks.signature import SecretCache, sign
from tests.once.webhooks.service import request
from tests.ops.cloud import Cloud

BUCKET = "claims"
SECRET = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy1vZi1vcHM="
CUSTOM = Profile(
    name="custom", signature_header="x-signature", type=("body:kind",), retry_seconds=1
)
ENDPOINTS = (
    Endpoint("stripe", STRIPE, types=("charge.refunded",)),
    Endpoint("github", GITHUB, types=("push",)),
    Endpoint("shopify", SHOPIFY, types=("orders/create",)),
    Endpoint("slack", SLACK, types=("app_mention",)),
    Endpoint("standard", STANDARD, types=("invoice.paid",)),
    Endpoint("custom", CUSTOM, types=("done",)),
)


class Webhooks:
    """The ingress of a deployment.

    Attributes:
        age: the time before now at which webhooks are received, in seconds.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.age = cloud, 0.0
        self.dynamodb = cloud.dynamodb
        self.s3 = boto3.client("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.secretsmanager = boto3.client("secretsmanager")
        self._create_table()
        self.secrets = {each.name: self._secret(each.name) for each in ENDPOINTS}
        cloud.state[StackOutput.CLAIM_BUCKET] = BUCKET
        cloud.service |= {
            StackOutput.WEBHOOK_URL: "https://abc.lambda-url.us-east-1.on.aws/",
            StackOutput.WEBHOOK_FUNCTION: "once-webhooks",
            StackOutput.WEBHOOK_ENDPOINTS: json.dumps([e.to_builtins() for e in ENDPOINTS]),
            **{
                f"{StackOutput.ENDPOINT_SECRET}{name.capitalize()}": arn
                for name, arn in self.secrets.items()
            },
            StackOutput.CAPTURES: CAPTURES,
        }
        self.ingress = self._ingress()

    def _create_table(self) -> None:
        keys = (("pk", "S"), (CaptureAttribute.DAY, "S"), (CaptureAttribute.RECEIVED_AT, "N"))
        self.dynamodb.create_table(
            TableName=CAPTURES,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, t in keys],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": BY_TIME,
                    "KeySchema": [
                        {"AttributeName": CaptureAttribute.DAY, "KeyType": "HASH"},
                        {"AttributeName": CaptureAttribute.RECEIVED_AT, "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    def _secret(self, name: str) -> str:
        made = self.secretsmanager.create_secret(Name=name, SecretString=f"{SECRET}\nolder\n")
        return str(made["ARN"])

    def _ingress(self) -> WebhookIngress:
        sender = boto3.client("dynamodb", config=SDK)
        settings = WebhookSettings(
            consumer="webhooks",
            dedup_table="physical-dedup",
            tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
            dedup_window_seconds=45 * 86400,
            publishes=tuple(t for each in ENDPOINTS for t in each.event_types),
            claim_bucket=BUCKET,
            max_body_bytes=2 * 1024 * 1024,
            endpoints=ENDPOINTS,
            secrets=self.secrets,
            capture_seconds=30 * 86400,
        )
        return WebhookIngress(
            settings=settings,
            dynamodb=sender,
            secrets=SecretCache(self.secretsmanager, self.secrets, self.clock),
            logger=Logger(service="webhooks", stream=io.StringIO()),
            s3=self.s3,
            metrics=MetricsLog(service="webhooks", write=lambda line: None),
            clock=self.clock,
            sleep=lambda seconds: None,
        )

    def clock(self) -> float:
        return time.time() - self.age

    def receive(
        self, body: bytes, endpoint: str = "stripe", *, webhook_id: str = "", **headers: str
    ) -> Capture:
        """Let the ingress take a webhook; return its capture."""
        known = next(each for each in ENDPOINTS if each.name == endpoint)
        signed = sign(known.profile, SECRET, body, webhook_id=webhook_id, now=self.clock())
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        before = {each.pk for each in self.captures()}
        assert self.post(f"/{endpoint}", body, {**named, **signed}) == 200
        [capture] = [each for each in self.captures() if each.pk not in before]
        return capture

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        answer = self.ingress.handle(request(path, body, headers), FakeContext())
        return answer["statusCode"]

    def captures(self) -> list[Capture]:
        table = boto3.resource("dynamodb").Table(CAPTURES)
        return [Capture.read(item) for item in table.scan()["Items"]]

    def put(self, body: bytes = b"{}", /, **facts: Any) -> Capture:
        """Write a capture as it could be in the table, whatever wrote it."""
        received = int(self.clock() * 1000)
        digest = sha256(body).hexdigest()
        capture = Capture(
            pk=f"webhooks#event#/webhooks/stripe#sha256:{digest}",
            received_at=received,
            endpoint="stripe",
            profile="stripe",
            webhook_id="",
            webhook_type="",
            event_type=None,
            standing=Standing.CAPTURED,
            verified=Verified.CURRENT,
            method="POST",
            path="/stripe",
            headers={},
            body=body,
            body_object=None,
            body_bytes=len(body),
            body_sha256=digest,
            expires_at=received // 1000 + 86400,
        )
        capture = replace(capture, **facts)
        boto3.resource("dynamodb").Table(CAPTURES).put_item(Item=capture.item())
        return capture


def stripe(webhook_id: str = "evt_1", kind: str = "charge.refunded", **more: Any) -> bytes:
    """Return the body of a webhook of Stripe."""
    return json.dumps({"id": webhook_id, "type": kind, **more}).encode()


@dataclass(frozen=True)
class Received:
    """A request; the names of its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """The requests so far, and the answer: a status, and a header `Location` if it has one."""

    port: int
    requests: list[Received] = field(default_factory=list)
    status: Callable[[Received], int] = lambda request: 200
    location: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a server on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received("POST", self.path, headers, self.rfile.read(length))
            running.requests.append(request)
            if (status := running.status(request)) == 0:
                return  # no answer
            self.send_response(status)
            if running.location:
                self.send_header("location", running.location)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    running = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
