"""`once webhooks send`: a signed test webhook of each provider, and the meaning of each answer."""

import json
from pathlib import Path
from typing import Any

from once.webhooks.captured_webhook import CaptureStanding
from tests.once.webhooks.service import SECRET, request
from tests.ops.support import stderr_of, stdout_of
from tests.ops.webhooks.ingress import Received, Receiver, Webhooks


def taken(webhooks: Webhooks, received: Received) -> int:
    """Let the ingress answer a request that the gateway received."""
    return webhooks.post(request(received.path, received.body, received.headers))


KINDS = {
    "stripe": "charge.refunded",
    "github": "push",
    "shopify": "orders/create",
    "slack": "app_mention",
    "standard": "invoice.paid",
    "custom": "done",
}


def test_a_webhook_of_each_provider_is_genuine(webhooks: Webhooks, gateway: Receiver) -> None:
    for endpoint, kind in KINDS.items():
        name = f"i-{kind}".replace(".", "-")
        output = stdout_of("webhooks", "send", endpoint, "--type", kind, "--id", name)
        request = gateway.requests.pop()
        assert request.path == f"/{endpoint}"
        assert request.headers["host"] == "abc.lambda-url.us-east-1.on.aws"
        assert taken(webhooks, request) == 200
        [capture] = [each for each in webhooks.captures() if each.endpoint == endpoint]
        assert (capture.standing, capture.webhook_type) == (CaptureStanding.HANDED_ON, kind)
        assert f"handed on as {capture.event_type}" in output
        assert f"once webhooks show {name}" in output
        intent, outcome = webhooks.cloud.logged()[-2:]
        assert (intent["phase"], outcome["phase"]) == ("intent", "outcome")
        assert SECRET not in output + json.dumps([intent, outcome])


def test_an_id_that_its_scheme_cannot_sign_is_refused(webhooks: Webhooks) -> None:
    error = stderr_of("webhooks", "send", "standard", "--id", "a.b")
    assert "the id contains '.', which ends it in what is signed: give --id without it" in error
    assert webhooks.cloud.logged() == []


def test_sent_again_it_is_a_duplicate(webhooks: Webhooks, gateway: Receiver) -> None:
    for endpoint in ("stripe", "github"):
        stdout_of("webhooks", "send", endpoint, "--id", "i-1", "--duplicate", 2)
        stdout_of("webhooks", "send", endpoint, "--id", "i-1")
        stdout_of("webhooks", "send", endpoint)
    assert len(gateway.requests) == 10
    assert {taken(webhooks, request) for request in gateway.requests} == {200}
    assert [each.standing for each in webhooks.captures()] == [CaptureStanding.HANDED_ON] * 4


ANSWERS = {
    401: "the secret in Secrets Manager differs",
    404: "deploy again",
    429: "reserved concurrency",
    503: "nothing durable was written",
    307: "see the log of the function",
}


def test_an_answer_is_explained(webhooks: Webhooks, gateway: Receiver) -> None:
    gateway.location = gateway.url
    statuses = [*ANSWERS]
    gateway.status = lambda request: statuses[len(gateway.requests) - 1]
    for text in ANSWERS.values():
        assert text in stderr_of("webhooks", "send", "stripe")
        assert webhooks.cloud.logged()[-1]["counts"] == {"sent": 1, "accepted": 0}
    assert len(gateway.requests) == len(ANSWERS)  # a redirect is not followed
    gateway.status = lambda request: 0
    error = stderr_of("webhooks", "send", "stripe", "--id", "i-1")
    assert "perhaps it was captured: send it again with --id i-1" in error


def test_a_given_body_has_its_id_and_type(
    webhooks: Webhooks, gateway: Receiver, tmp_path: Path
) -> None:
    file = tmp_path / "body.json"
    file.write_text('{"event": {"type": "x", "user": "u"}}')
    send = ("webhooks", "send", "slack", "--type", "other", "--id", "i-1", "--json", "--data")
    assert json.loads(stdout_of(*send, f"@{file}")) == {
        "endpoint": "slack",
        "id": "i-1",
        "type": "other",
        "event_type": None,
        "statuses": [200],
    }
    body: Any = json.loads(gateway.requests[0].body)
    assert body == {"event": {"type": "other", "user": "u"}, "event_id": "i-1"}


REFUSED: dict[tuple[str, ...], tuple[int, str]] = {
    ("stripes",): (1, "choose one of stripe, github"),
    ("stripe", "--data", "[1]"): (1, "it must be a JSON object"),
    ("stripe", "--data", '{"a": 1, "a": 2}'): (1, "is not the body of a webhook"),
    ("stripe", "--data", "@missing.json"): (2, "missing.json cannot be read"),
    ("stripe", "--data", json.dumps({"a": "x" * 200_000})): (1, "at most 131072"),
}


def test_a_webhook_that_cannot_be_sent_is_not(webhooks: Webhooks, gateway: Receiver) -> None:
    for arguments, (code, text) in REFUSED.items():
        assert text in stderr_of("webhooks", "send", *arguments, code=code)
    for secret, text in (("\n \n", "is empty"), ("whsec_%", "cannot sign")):
        webhooks.secretsmanager.put_secret_value(SecretId="standard", SecretString=secret)
        error = stderr_of("webhooks", "send", "standard")
        assert text in error
        assert "whsec_%" not in error
    assert gateway.requests == []
