"""Captures: everything that is kept of a webhook, and the event that is rebuilt from it."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import boto3
import pytest

from once.errors import OnceError, Unparseable, Unpublishable
from once.events.claim_check import Claim, ClaimMissing, InvalidClaim
from once.events.outgoing import ClaimPlace, OutgoingEvent
from once.webhooks.captured_webhook import (
    Capture,
    CaptureStanding,
    Verified,
    day_part,
    day_parts,
    read_body,
)
from once.webhooks.endpoint import OBJECTS
from once.webhooks.webhook import rebuilt_event
from tests.once.webhooks.service import (
    ENDPOINTS,
    NOW,
    SECRET,
    Service,
    github_request,
    stripe_body,
    stripe_request,
)

SECOND = int(NOW)
LARGE = b"\x00\xff" * 150_000


@pytest.fixture
def service() -> Service:
    boto3.client("s3", "us-east-1").create_bucket(Bucket="claims")
    return Service(claim_bucket="claims", max_body_bytes=4 * 1024 * 1024)


def test_a_capture_has_the_whole_webhook(service: Service) -> None:
    body = stripe_body("évt")
    event = stripe_request(body) | {"rawQueryString": "a=1&b=%20"}
    event["headers"] |= {"User-Agent": "Stripe/1.0", "x-other": "x", "cookie": "c"}
    assert service.post(event) == 200
    assert service.captures() == [
        Capture(
            pk="webhooks#event#/webhooks/stripe#évt",
            received_at=SECOND * 1000,
            endpoint="stripe",
            profile="stripe",
            webhook_id="évt",
            webhook_type="charge.refunded",
            event_type="stripe.charge.refunded",
            standing=CaptureStanding.HANDED_ON,
            verified=Verified.CURRENT,
            method="POST",
            path="/stripe?a=1&b=%20",
            headers={
                "stripe-signature": event["headers"]["stripe-signature"],
                "content-type": "application/json",
                "user-agent": "Stripe/1.0",
            },
            body=body,
            body_object=None,
            body_bytes=len(body),
            body_sha256=sha256(body).hexdigest(),
            expires_at=SECOND + 30 * 86400,
        )
    ]


def test_the_headers_that_a_provider_documents_are_kept(service: Service) -> None:
    documented = {"x-github-hook-id": "7", "x-github-hook-installation-target-type": "repository"}
    assert service.post(github_request(b"{}", **documented, cookie="c")) == 200
    [capture] = service.captures()
    assert capture.headers.items() >= documented.items()
    assert {"x-github-event", "x-github-delivery", "x-hub-signature-256"} <= capture.headers.keys()
    assert "cookie" not in capture.headers


def test_headers_that_do_not_fit_are_left_out(service: Service) -> None:
    odd = {"user-agent": "é" * 20_000, "x-github-hook-id": "\ud800", "content-type": "a" * 30_000}
    assert service.post(github_request(b"{}", **odd)) == 200
    [capture] = service.captures()
    assert capture.headers["content-type"] == odd["content-type"]
    assert capture.headers["x-github-hook-id"] == "?"
    assert "user-agent" not in capture.headers


def test_a_capture_names_the_version_of_the_secret(service: Service) -> None:
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="new\nnewer")
    for number, secret in enumerate(("newer", SECRET)):
        assert service.post(stripe_request(stripe_body(f"e{number}"), secret=secret)) == 200
    found = {each.webhook_id: each.verified for each in service.captures()}
    assert found == {"e0": Verified.CURRENT, "e1": Verified.PREVIOUS}


@pytest.mark.parametrize("body", [b"", b"\x00\xff", LARGE], ids=["empty", "small", "large"])
def test_a_body_is_read_back_byte_for_byte(service: Service, body: bytes) -> None:
    assert service.post(github_request(body)) == 200
    [capture] = service.captures()
    digest = sha256(body).hexdigest()
    assert capture.body_object == (f"{OBJECTS}github/{digest}" if body is LARGE else None)
    assert (capture.body_bytes, capture.body_sha256) == (len(body), digest)
    assert read_body(capture, service.s3, "claims") == body


def test_a_body_that_is_not_what_was_received_is_refused(service: Service) -> None:
    assert service.post(github_request(LARGE)) == 200
    [capture] = service.captures()
    with pytest.raises(ClaimMissing, match="no claim-check bucket"):
        read_body(capture, service.s3, None)
    service.s3.put_object(Bucket="claims", Key=capture.body_object, Body=b"other")
    with pytest.raises(InvalidClaim, match="was changed"):
        read_body(capture, service.s3, "claims")
    service.s3.delete_object(Bucket="claims", Key=capture.body_object)
    with pytest.raises(ClaimMissing, match="does not exist"):
        read_body(capture, service.s3, "claims")


def test_the_largest_capture_fits_an_item(service: Service) -> None:
    full = {"user-agent": "u" * 31_000}
    event = github_request(b"x" * 262_144, **full) | {"rawQueryString": "é" * 10_000}
    assert service.post(event) == 200
    [capture] = service.captures()
    assert capture.body is not None
    assert capture.headers["user-agent"] == full["user-agent"]


@pytest.mark.parametrize("change", [{"standing": "lost"}, {"headers": "{"}, {"received_at": "x"}])
def test_an_item_of_another_form_is_refused(service: Service, change: dict[str, str]) -> None:
    assert service.post(stripe_request(stripe_body())) == 200
    [capture] = service.captures()
    with pytest.raises(ValueError, match=r"."):
        Capture.read(capture.item() | change)


def test_a_capture_is_in_one_part_of_its_day() -> None:
    digests = [sha256(bytes([n])).hexdigest() for n in range(32)]
    found = {day_part("stripe", SECOND * 1000, digest) for digest in digests}
    assert found == {*day_parts("stripe", SECOND * 1000)}
    assert {part.rpartition("#")[0] for part in found} == {"stripe#2027-01-15"}


# Replay: the event of a capture is the one that was published, byte for byte.


BUCKET = "claims"


@pytest.fixture
def replaying() -> Service:
    boto3.client("s3", "us-east-1").create_bucket(Bucket=BUCKET)
    groups = {"stripe.charge.refunded": "id", "github.push": "ref"}
    return Service(claim_bucket=BUCKET, max_body_bytes=4 * 1024 * 1024, groups=groups)


def rebuilt(
    replaying: Service, capture: Capture, **change: Any
) -> tuple[OutgoingEvent, Claim | None]:
    [endpoint] = (replace(e, **change) for e in ENDPOINTS if e.name == capture.endpoint)
    body = read_body(capture, boto3.client("s3", "us-east-1"), BUCKET)
    field = replaying.settings.groups.get(str(capture.event_type))
    place = ClaimPlace(BUCKET, "webhooks", 4 * 1024 * 1024)
    return rebuilt_event(capture, body, endpoint, group_field=field, claims=place)


@pytest.mark.parametrize(
    "request_event",
    [
        stripe_request(stripe_body("évt", note="ünï", amount=1.5)),
        github_request(b'{"ref": "main"}'),
        github_request(b'{"ref": "main", "more": "%s"}' % (b"x" * 300_000)),
    ],
    ids=["signed id", "id in a header", "data in S3"],
)
def test_the_event_of_a_capture_is_the_one_that_was_published(
    replaying: Service, request_event: Mapping[str, Any]
) -> None:
    replaying.now += 0.0057
    assert replaying.post(request_event) == 200
    [capture], [published] = replaying.captures(), replaying.events()
    for types in (("charge.refunded", "push"), ()):  # the endpoint's own, and no more of any
        event, claim = rebuilt(replaying, capture, types=types)
        assert event == published
        assert (claim is not None) is ("dataref" in published.body)


def test_a_webhook_that_was_not_handed_on_gets_an_event_of_its_own(replaying: Service) -> None:
    for amount in (1, 2):
        assert replaying.post(stripe_request(stripe_body(amount=amount))) == 200
    [conflict] = (c for c in replaying.captures() if c.standing is CaptureStanding.CONFLICT)
    [published] = replaying.events()
    replayed, _ = rebuilt(replaying, conflict)
    assert replayed.type == published.type
    assert replayed.id != published.id


NOT_HANDED_ON = (
    "the endpoint stripe does not hand its type on: add the type to types= of the endpoint in the "
    "CDK app and deploy, or send it to a URL"
)


@pytest.mark.parametrize(
    ("sent", "error", "text"),
    [
        (stripe_request(stripe_body(type="a")), Unpublishable, NOT_HANDED_ON),
        (stripe_request(b"{"), Unpublishable, NOT_HANDED_ON),
        (
            github_request(b"{"),
            Unparseable,
            "the body is not strict JSON, so it can be sent to a URL only",
        ),
    ],
    ids=["another type", "no type", "no JSON"],
)
def test_a_capture_without_an_event_says_why(
    replaying: Service, sent: dict[str, Any], error: type[OnceError], text: str
) -> None:
    assert replaying.post(sent) == 200
    [capture] = replaying.captures()
    with pytest.raises(error, match=f"^{text}$"):
        rebuilt(replaying, capture)
