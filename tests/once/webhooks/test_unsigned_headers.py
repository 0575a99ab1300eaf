"""Headers that no signature covers: they never choose the key, and hide no genuine webhook."""

import base64
import hmac
import json
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import pytest

from once.names import Metric
from once.webhooks.capture import Conflict, Standing
from once.webhooks.endpoint import (
    GITHUB,
    PROFILES,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    Endpoint,
    Profile,
    hmac_profile,
)
from once.webhooks.signature import sign
from tests.once.webhooks.service import (
    NOW,
    SECRET,
    Service,
    github_request,
    request,
    slack_request,
    stripe_body,
    stripe_request,
)

FORM = "application/x-www-form-urlencoded"
TYPES = {
    "stripe": "charge.refunded",
    "github": "push",
    "shopify": "orders/paid",
    "slack": "app_mention",
    "standard": "ticket.opened",
}
BODY = json.dumps({"id": "evt_1", "event_id": "Ev1", "event": {"type": TYPES["slack"]}}).encode()
TAKEN, DUPLICATE = {Metric.WEBHOOKS_TAKEN}, {Metric.WEBHOOK_DUPLICATES}
CONFLICT = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS}


def body_of(profile: Profile) -> bytes:
    """Return a body with the type in each place of it where a profile has one."""
    return json.dumps(json.loads(BODY) | {"type": TYPES[profile.name]}).encode()


def signed(profile: Profile, body: bytes = BODY, webhook_id: str = "w-1", **headers: str) -> Any:
    """Return a request that the provider of a profile signed, at its endpoint of that name."""
    kind = {place.removeprefix("header:"): TYPES[profile.name] for place in profile.type[:1]}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made = sign(profile, SECRET, body, webhook_id=webhook_id, now=NOW)
    return request(f"/{profile.name}", body, {**kind, **made, **named})


def shopify(topic: str = "orders/paid", webhook_id: str = "w-1") -> Any:
    named = {"x-shopify-topic": topic, "x-shopify-webhook-id": webhook_id}
    digest = hmac.new(SECRET.encode(), b'{"id": 7}', sha256).digest()
    mac = {"x-shopify-hmac-sha256": base64.b64encode(digest).decode()}
    return request("/shopify", b'{"id": 7}', named | mac)


def service_of(*types: str, **endpoint: Any) -> Service:
    """Return an ingress with an endpoint for each provider, which hands on further types."""
    return Service(
        tuple(
            Endpoint(p.name, p, types=(TYPES[p.name], *types), **endpoint)
            for p in PROFILES.values()
            if not endpoint or p.id.startswith("header:x-")
        )
    )


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
@pytest.mark.parametrize("altered", ["", FORM, "application/json; charset=utf-16"])
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_content_type_does_not_decide_how_a_body_is_read(
    profile: Profile, altered: str, order: int
) -> None:
    service, body = service_of(), body_of(profile)
    for content_type in (altered, "application/json")[::order]:
        assert service.post(signed(profile, body, content_type=content_type)) == 200
    assert service.counted() == [TAKEN, DUPLICATE]
    assert [each.standing for each in service.captures()] == [Standing.HANDED_ON]
    [event] = service.events()
    assert json.loads(event.body)["data"] == json.loads(body)


@pytest.mark.parametrize("content_type", ["", "application/json", FORM])
def test_a_form_is_known_by_its_signed_bytes(content_type: str) -> None:
    service = service_of()
    for profile in (GITHUB, SLACK):
        body = urlencode({"payload": BODY.decode()}).encode()
        assert service.post(signed(profile, body, content_type=content_type)) == 200
        assert service.post(signed(profile, body, content_type="text/plain")) == 200
    assert {json.dumps(json.loads(each.body)["data"]) for each in service.events()} == {
        BODY.decode()
    }
    assert service.counted() == [TAKEN, DUPLICATE] * 2


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
@pytest.mark.parametrize("other", ["issues", "unknown", ""])
def test_another_type_for_known_bytes_is_a_conflict_that_is_counted_and_kept(
    other: str, order: int
) -> None:
    service = Service((Endpoint("github", GITHUB, types=("push", "issues")),))
    first, second = (github_request(b"{}", event=each) for each in (other, "push")[::order])
    assert [service.post(each) for each in (first, second, second, first)] == [200] * 4
    assert service.counted() == [TAKEN, CONFLICT, DUPLICATE, DUPLICATE]
    earlier, conflict = sorted(service.captures(), key=lambda c: c.standing is Standing.CONFLICT)
    assert conflict.standing is Standing.CONFLICT
    assert (conflict.conflict, conflict.conflicts_with) == (Conflict.TYPE, earlier.pk)
    assert (earlier.conflict, earlier.conflicts_with) == (None, None)
    assert [earlier.webhook_type, conflict.webhook_type] == [*(other, "push")[::order]]
    assert len(service.events()) == (earlier.webhook_type in ("push", "issues"))


def test_another_content_under_a_signed_id_is_a_conflict_with_its_key() -> None:
    service = Service()
    for amount in (1, 2):
        assert service.post(stripe_request(stripe_body(amount=amount))) == 200
    [conflict] = [c for c in service.captures() if c.standing is Standing.CONFLICT]
    assert conflict.conflict is Conflict.CONTENT
    assert conflict.conflicts_with == "webhooks#event#/webhooks/stripe#evt_1"


def test_two_topics_of_shopify_with_equal_bytes_are_two_events() -> None:
    service = service_of("orders/create")
    for topic in ("orders/create", "orders/paid", "orders/create", "orders/paid"):
        assert service.post(shopify(topic)) == 200
    assert {e.type for e in service.events()} == {"shopify.orders/create", "shopify.orders/paid"}
    assert service.counted() == [TAKEN, TAKEN, DUPLICATE, DUPLICATE]
    assert {each.standing for each in service.captures()} == {Standing.HANDED_ON}


def test_a_forged_topic_never_takes_the_place_of_the_genuine_one() -> None:
    service = service_of()
    for topic in ("unknown", "", "orders/paid", "orders/paid:", "t" * 5000):
        assert service.post(shopify(topic)) == 200
    assert [event.type for event in service.events()] == ["shopify.orders/paid"]


@pytest.mark.parametrize("profile", [GITHUB, SHOPIFY], ids=["github", "shopify"])
def test_an_unsigned_id_is_a_claim_of_the_first_request_and_no_key(profile: Profile) -> None:
    service = service_of()
    for webhook_id in ("forged", "genuine", ""):
        assert service.post(signed(profile, webhook_id=webhook_id)) == 200
    [event] = service.events()
    assert json.loads(event.body)["webhookid"] == "forged"
    assert service.counted() == [TAKEN, DUPLICATE, DUPLICATE]


def test_a_trusted_id_makes_two_webhooks_and_hides_no_type() -> None:
    service = service_of(trusts_id=True)
    for webhook_id, kind in (("1", "push"), ("2", "push"), ("1", "issues"), ("1", "push")):
        sent = signed(GITHUB, webhook_id=webhook_id, x_github_event=kind)
        assert service.post(sent) == 200
    assert len(service.events()) == 2
    assert service.counted() == [TAKEN, TAKEN, CONFLICT, DUPLICATE]


@pytest.mark.parametrize("type_in_key", [False, True])
def test_a_generic_profile_says_whether_equal_bodies_have_several_types(
    type_in_key: bool,  # noqa: FBT001
) -> None:
    acme = hmac_profile(
        "acme",
        signature_header="x-acme",
        type=("header:x-kind",),
        retry_seconds=60,
        type_in_key=type_in_key,
    )
    service = Service((Endpoint("acme", acme, types=("paid", "sent")),))
    made = sign(acme, SECRET, b'{"n": 1}', webhook_id="", now=NOW)
    for kind in ("paid", "sent"):
        assert service.post(request("/acme", b'{"n": 1}', made | {"x-kind": kind})) == 200
    assert service.counted() == [TAKEN, TAKEN if type_in_key else CONFLICT]
    assert len(service.events()) == 1 + type_in_key


def test_signed_types_have_nothing_to_conflict_with() -> None:
    service = Service()
    body = b'{"event_id": "Ev1", "event": {"type": "app_mention"}, "type": "event_callback"}'
    sent = slack_request(body)
    sent["headers"] |= {"x-slack-topic": "other", "content-type": FORM}
    assert [service.post(sent), service.post(slack_request(body))] == [200, 200]
    assert service.counted() == [TAKEN, DUPLICATE]


def test_profiles_say_which_types_are_signed() -> None:
    assert {p.name for p in PROFILES.values() if p.has_signed_type} == {
        *(STRIPE.name, SLACK.name, STANDARD.name),
    }
    assert [p.name for p in PROFILES.values() if p.type_in_key] == [SHOPIFY.name]
