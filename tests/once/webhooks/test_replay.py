"""Replay: the event of a capture is the one that was published, byte for byte."""

from collections.abc import Mapping
from typing import Any

import boto3
import pytest

from once.errors import OnceError, Unparseable, Unpublishable
from once.events.claim_check import Claim
from once.events.outgoing import ClaimPlace, OutgoingEvent
from once.webhooks.capture import Capture, Standing, read_body
from once.webhooks.webhook import rebuilt_event
from tests.once.webhooks.service import (
    ENDPOINTS,
    Service,
    github_request,
    stripe_body,
    stripe_request,
)

BUCKET = "claims"


@pytest.fixture
def service() -> Service:
    boto3.client("s3", "us-east-1").create_bucket(Bucket=BUCKET)
    groups = {"stripe.charge.refunded": "id"}
    return Service(claim_bucket=BUCKET, max_body_bytes=4 * 1024 * 1024, groups=groups)


def rebuilt(service: Service, capture: Capture) -> tuple[OutgoingEvent, Claim | None]:
    [endpoint] = (each for each in ENDPOINTS if each.name == capture.endpoint)
    body = read_body(capture, boto3.client("s3", "us-east-1"), BUCKET)
    field = service.settings.groups.get(str(capture.event_type))
    place = ClaimPlace(BUCKET, "webhooks", 4 * 1024 * 1024)
    return rebuilt_event(capture, body, endpoint, group_field=field, claims=place)


@pytest.mark.parametrize(
    "request_event",
    [
        stripe_request(stripe_body("évt", note="ünï", amount=1.5)),
        github_request(b'{"ref": "main"}'),
        github_request(b'{"ref": "%s"}' % (b"x" * 300_000)),
    ],
    ids=["signed id", "id in a header", "data in S3"],
)
def test_the_event_of_a_capture_is_the_one_that_was_published(
    service: Service, request_event: Mapping[str, Any]
) -> None:
    service.now += 0.0057
    assert service.post(request_event) == 200
    [capture], [published] = service.captures(), service.events()
    event, claim = rebuilt(service, capture)
    assert event == published
    assert (claim is not None) is ("dataref" in published.body)


def test_a_webhook_that_was_not_handed_on_gets_an_event_of_its_own(service: Service) -> None:
    for amount in (1, 2):
        assert service.post(stripe_request(stripe_body(amount=amount))) == 200
    [conflict] = (c for c in service.captures() if c.standing is Standing.CONFLICT)
    [published] = service.events()
    replayed, _ = rebuilt(service, conflict)
    assert replayed.type == published.type
    assert replayed.id != published.id


@pytest.mark.parametrize(
    ("body", "error"),
    [(stripe_body(type="charge.captured"), Unpublishable), (b"{", Unpublishable)],
    ids=["another type", "no JSON"],
)
def test_a_capture_without_an_event_says_why(
    service: Service, body: bytes, error: type[OnceError]
) -> None:
    assert service.post(stripe_request(body)) == 200
    [capture] = service.captures()
    with pytest.raises(error, match="add the type to types="):
        rebuilt(service, capture)


def test_a_body_that_is_not_json_has_no_event(service: Service) -> None:
    assert service.post(github_request(b"{")) == 200
    [capture] = service.captures()
    with pytest.raises(Unparseable, match="to a URL only"):
        rebuilt(service, capture)
