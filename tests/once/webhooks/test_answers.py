"""Every answer of the ingress, what it keeps, and what it counts."""

import json
from typing import Any

import pytest

from once.names import Metric
from once.testing.events import FakeContext
from once.webhooks.capture import Standing
from tests.once.webhooks.service import (
    NOW,
    Service,
    github_request,
    request,
    slack_request,
    stripe_body,
    stripe_request,
)

FORM = {"content-type": "application/x-www-form-urlencoded"}
HANDSHAKE = json.dumps({"type": "url_verification", "challenge": "c-1"}).encode()
PUSH = b'{"ref": "main"}'


@pytest.fixture
def service() -> Service:
    return Service()


TAKEN: dict[str, tuple[dict[str, Any], Standing]] = {
    "of a type that is handed on": (stripe_request(stripe_body()), Standing.HANDED_ON),
    "with its id in a header": (github_request(PUSH), Standing.HANDED_ON),
    "a form": (github_request(b"payload=%7B%22a%22%3A1%7D", **FORM), Standing.HANDED_ON),
    "of another type": (stripe_request(stripe_body(type="payout.paid")), Standing.CAPTURED),
    "without a type": (stripe_request(b'{"id": "evt_1"}'), Standing.CAPTURED),
    "without id and type": (stripe_request(b"{}"), Standing.CAPTURED),
    "no object": (stripe_request(b"[1]"), Standing.CAPTURED),
    "no JSON": (stripe_request(b"{"), Standing.UNREADABLE),
    "not UTF-8": (stripe_request(b"\xff\x00"), Standing.UNREADABLE),
    "empty": (stripe_request(b""), Standing.UNREADABLE),
    "a key twice": (stripe_request(b'{"id": "a", "id": "b"}'), Standing.UNREADABLE),
    "too deep": (github_request(b"[" * 65 + b"]" * 65), Standing.UNREADABLE),
    "a number that no consumer reads": (github_request(b'{"a": 1e400}'), Standing.UNREADABLE),
}
STANDINGS = {
    Standing.HANDED_ON: {Metric.WEBHOOKS_TAKEN},
    Standing.CAPTURED: {Metric.WEBHOOKS_TAKEN},
    Standing.UNREADABLE: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNREADABLE},
    Standing.UNPUBLISHABLE: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNPUBLISHABLE},
    Standing.CONFLICT: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS},
}


@pytest.mark.parametrize(("event", "standing"), TAKEN.values(), ids=TAKEN)
def test_a_webhook_is_captured_once(
    service: Service, event: dict[str, Any], standing: Standing
) -> None:
    assert [service.post(event), service.post(event)] == [200, 200]
    [capture] = service.captures()
    assert capture.standing is standing
    assert len(service.events()) == (standing is Standing.HANDED_ON)
    assert service.counted() == [STANDINGS[standing], {Metric.WEBHOOK_DUPLICATES}]


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no endpoint": (request("/nobody", b"{}", {}), 404, Metric.WEBHOOKS_MISADDRESSED),
    "no path": (request("/", b"{}", {}), 404, Metric.WEBHOOKS_MISADDRESSED),
    "GET": (request("/stripe", b"", {}, method="GET"), 405, Metric.WEBHOOKS_MISADDRESSED),
    "too large": (request("/stripe", b"x" * 131_073, {}), 413, Metric.WEBHOOKS_TOO_LARGE),
    "too large as text": (
        request("/stripe", b"", {}) | {"body": "é" * 65_537, "isBase64Encoded": False},
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "too large, before it is decoded": (
        request("/stripe", b"", {}) | {"body": "!" * 200_000},
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "over what an item holds": (
        github_request(b"x" * 262_145),
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "not signed": (request("/stripe", b"{}", {}), 401, Metric.WEBHOOKS_FORGED),
    "forged": (stripe_request(stripe_body(), secret="no"), 401, Metric.WEBHOOKS_FORGED),
    "old": (stripe_request(stripe_body(), at=NOW - 301), 401, Metric.WEBHOOKS_STALE),
    "of the future": (stripe_request(stripe_body(), at=NOW + 301), 401, Metric.WEBHOOKS_STALE),
    "forged handshake": (request("/slack", HANDSHAKE, {}), 401, Metric.WEBHOOKS_FORGED),
    "not base64": (stripe_request(b"") | {"body": "!"}, 503, Metric.WEBHOOKS_FAILED),
    "payload format 1.0": (
        {"version": "1.0", "path": "/stripe", "httpMethod": "POST", "requestContext": {}},
        *(503, Metric.WEBHOOKS_FAILED),
    ),
}


@pytest.mark.parametrize(("event", "status", "metric"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request_leaves_nothing_and_is_counted(
    service: Service, event: dict[str, Any], status: int, metric: str
) -> None:
    answer = service.ingress.handle(event, FakeContext())
    assert (answer["statusCode"], answer["body"]) == (status, "")
    assert [*service.captures(), *service.events()] == []
    assert service.counted() == [{metric}]


def test_a_body_of_the_largest_size_is_taken(service: Service) -> None:
    body = stripe_body(note="")
    full = body.replace(b'""', b'"%s"' % (b"x" * (131_072 - len(body))))
    assert len(full) == 131_072
    assert service.post(stripe_request(full)) == 200


def test_another_method_learns_which_one_is_taken(service: Service) -> None:
    answer = service.ingress.handle(request("/stripe", b"", {}, method="PUT"), FakeContext())
    assert answer["headers"]["allow"] == "POST"


def test_a_handshake_is_answered_and_not_kept(service: Service) -> None:
    answer = service.ingress.handle(slack_request(HANDSHAKE), FakeContext())
    assert (answer["statusCode"], answer["body"]) == (200, "c-1")
    assert service.captures() == []
    assert service.counted() == [{Metric.WEBHOOK_HANDSHAKES}]


def test_a_handshake_of_another_provider_is_a_webhook(service: Service) -> None:
    assert service.post(stripe_request(HANDSHAKE)) == 200
    assert len(service.captures()) == 1


def test_a_text_body_is_taken_like_one_in_base64(service: Service) -> None:
    body = stripe_body(note="é")
    text = {"body": body.decode(), "isBase64Encoded": False}
    assert service.post(stripe_request(body) | text) == 200
    assert service.post(stripe_request(body)) == 200
    assert service.counted()[1] == {Metric.WEBHOOK_DUPLICATES}


def test_a_line_has_endpoint_standing_and_hash_of_the_key(service: Service) -> None:
    service.post(stripe_request(stripe_body()))
    service.post(stripe_request(stripe_body()))
    service.post(request("/nobody", b"", {}))
    taken, duplicate, unknown = service.properties()
    assert (taken["endpoint"], taken["standing"]) == ("stripe", "handed-on")
    assert taken["key_hash"] == duplicate["key_hash"]
    assert "standing" not in duplicate
    assert taken[Metric.WEBHOOK_MS] == [0]
    assert unknown.keys() & {"endpoint", "key_hash", Metric.WEBHOOK_MS} == set()


def test_a_webhook_after_the_window_is_new(service: Service) -> None:
    assert service.post(stripe_request(stripe_body())) == 200
    service.now += 46 * 86400
    assert service.post(stripe_request(stripe_body(), at=service.now)) == 200
    assert service.counted() == [{Metric.WEBHOOKS_TAKEN}] * 2
    [capture] = service.captures()
    assert capture.received_at == int(service.now * 1000)
