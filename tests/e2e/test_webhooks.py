"""Webhooks on the deployed service: over HTTP, captured, and applied once by the shop."""

import hmac
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from demo.quiescence import wait_until
from demo.scenarios.webhook_requests import (
    FORM,
    Forged,
    Genuine,
    HttpRequest,
    Provider,
    SampleWebhook,
    Sender,
    Trick,
)
from tests.e2e.deployment import REST_SECONDS, Deployment

SECRETS = {"stripe": "whsec_c3RyaXBl", "github": "the secret of a repository"}
LETTERS = 300_000


class Provided:
    """The providers, with the deployed ingress that they send to."""

    def __init__(self, service: Deployment) -> None:
        self.service = service
        assert service.parts.webhooks is not None
        self.ingress = service.parts.webhooks
        manager = service.aws.client("secretsmanager")
        for name, arn in self.ingress.secrets.items():
            manager.put_secret_value(SecretId=arn, SecretString=SECRETS[name])

    def post(self, request: HttpRequest, fault: str = "") -> tuple[int, str]:
        headers = {**request.headers, **({"x-fault": fault} if fault else {})}
        with closing(Sender(self.service.aws, self.ingress.url, SECRETS)) as sender:
            return sender.post(replace(request, headers=headers))

    def push(self, serial: str, **data: Any) -> HttpRequest:
        webhook = SampleWebhook.sample(Provider.GITHUB, serial, 1)
        changed = replace(webhook, data=webhook.data | data)
        return Genuine(changed).request(SECRETS, time.time())

    def counted(self, serial: str) -> Mapping[str, Any]:
        """Wait until a push was counted; return the counter when the queue is empty."""
        wait_until(
            f"{serial} is counted",
            lambda: bool(self.service.get("scans", scan=serial)),
            timeout=REST_SECONDS,
        )
        self.service.wait_until_empty("archive")
        return self.service.get("scans", scan=serial)

    def captures(self, body: bytes) -> list[dict[str, Any]]:
        """Return the captures of a body."""
        answer = self.service.dynamodb.scan(
            TableName=self.ingress.captures,
            ConsistentRead=True,
            FilterExpression="body_sha256 = :sha256",
            ExpressionAttributeValues={":sha256": {"S": sha256(body).hexdigest()}},
        )
        return list(answer["Items"])


@pytest.fixture(scope="module")
def provided(service: Deployment) -> Provided:
    return Provided(service)


def test_w2_a_webhook_that_is_sent_twice_is_captured_and_applied_once(provided: Provided) -> None:
    request = provided.push("sent-twice")
    copies = [
        replace(request, headers={**request.headers, **changed})  # none of these is signed
        for changed in ({"content-type": FORM}, {}, {}, {"x-github-event": "other"})
    ]
    assert [provided.post(each)[0] for each in copies] == [200] * 4
    assert provided.counted("sent-twice")["archived"] == "1"
    conflict, capture = sorted(
        provided.captures(request.body), key=lambda one: str(one["standing"]["S"])
    )
    assert capture["body"]["B"] == request.body
    standings = [each["standing"]["S"] for each in (capture, conflict)]
    assert standings == ["handed-on", "conflict"]
    assert conflict["conflicts_with"] == capture["pk"]


def test_a_refund_at_stripe_reaches_the_order(provided: Provided) -> None:
    charge = {"amount_refunded": 5, "refunded": True, "metadata": {"order_id": "refunded-1"}}
    data = {"id": "evt_1", "type": "charge.refunded", "data": {"object": charge}}
    body, now = json.dumps(data).encode(), int(time.time())
    signed = hmac.new(SECRETS["stripe"].encode(), f"{now}.".encode() + body, sha256).hexdigest()
    headers = {"content-type": "application/json", "stripe-signature": f"t={now},v1={signed}"}
    assert provided.post(HttpRequest("/stripe", headers, body))[0] == 200
    wait_until(
        "the order is refunded",
        lambda: provided.service.get("orders", order_id="refunded-1").get("status") == "refunded",
        timeout=REST_SECONDS,
    )


@pytest.mark.parametrize("trick", [Trick.WRONG_SECRET, Trick.UNSIGNED])
def test_w1_a_forged_webhook_is_refused_and_leaves_nothing(
    provided: Provided, trick: Trick
) -> None:
    forged = Forged(SampleWebhook.sample(Provider.GITHUB, trick, 1), trick)
    request = forged.request(SECRETS, time.time())
    assert provided.post(request) == (401, "")
    assert provided.captures(request.body) == []


@pytest.mark.parametrize(("fault", "captures"), [("die-before", 0), ("die-after", 1)])
def test_w5_a_webhook_whose_function_dies_is_sent_again_and_applied_once(
    provided: Provided, fault: str, captures: int
) -> None:
    request = provided.push(fault)
    assert provided.post(request, fault)[0] == 502
    assert len(provided.captures(request.body)) == captures
    assert provided.post(request)[0] == 200
    assert provided.counted(fault)["archived"] == "1"
    assert len(provided.captures(request.body)) == 1


def test_a_large_body_goes_through_s3_byte_for_byte(provided: Provided) -> None:
    request = provided.push("large", note="é" * LETTERS)
    assert [provided.post(request)[0] for _ in range(2)] == [200, 200]
    found = provided.counted("large")
    assert (found["letters"], found["archived"]) == (str(LETTERS), "1")
    [capture] = provided.captures(request.body)
    stored = provided.service.aws.client("s3").get_object(
        Bucket=provided.service.parts.claim_bucket, Key=capture["body_object"]["S"]
    )
    assert stored["Body"].read() == request.body
