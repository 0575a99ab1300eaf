"""A deployment with a webhook ingress, and a server that keeps the requests which it receives."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3

from once.names import StackOutput
from once.webhooks.captured_webhook import (
    BY_TIME,
    Capture,
    CaptureAttribute,
    CaptureStanding,
    Verified,
)
from once.webhooks.endpoint import (
    CAPTURES,
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Endpoint,
    Profile,
)
from once.webhooks.signature import sign
from tests.once.webhooks.service import SECRET, Service, request
from tests.ops.cloud import Cloud

BUCKET = "claims"
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


class Webhooks(Service):
    """The ingress of a deployment.

    Attributes:
        age: the time before now at which webhooks are received, in seconds.
    """

    secret_string = f"{SECRET}\nolder\n"

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.age = cloud, 0.0
        dedup: dict[str, Any] = {"dedup_table": "physical-dedup", "claim_bucket": BUCKET}
        super().__init__(ENDPOINTS, **dedup, max_body_bytes=2 * 1024 * 1024)
        self.s3.create_bucket(Bucket=BUCKET)
        cloud.state[StackOutput.CLAIM_BUCKET] = BUCKET
        cloud.service |= {
            StackOutput.WEBHOOK_URL: "https://abc.lambda-url.us-east-1.on.aws/",
            StackOutput.WEBHOOK_FUNCTION: "once-webhooks",
            StackOutput.WEBHOOK_ENDPOINTS: json.dumps([e.to_builtins() for e in ENDPOINTS]),
            **{
                f"{StackOutput.ENDPOINT_SECRET}{name.capitalize()}": arn
                for name, arn in self.settings.secrets.items()
            },
            StackOutput.CAPTURES: CAPTURES,
        }

    def _create_tables(self) -> None:
        """Make the table of captures with its index; that of dedup records is the deployment's."""
        day, at = CaptureAttribute.DAY, CaptureAttribute.RECEIVED_AT
        by_time = [("HASH", day), ("RANGE", at)]
        self.dynamodb.create_table(
            TableName=CAPTURES,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind}
                for name, kind in (("pk", "S"), (day, "S"), (at, "N"))
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": BY_TIME,
                    "KeySchema": [{"AttributeName": n, "KeyType": kind} for kind, n in by_time],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
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
        assert self.post(request(f"/{endpoint}", body, {**named, **signed})) == 200
        [capture] = [each for each in self.captures() if each.pk not in before]
        return capture

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
            standing=CaptureStanding.CAPTURED,
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
