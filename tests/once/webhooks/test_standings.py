"""Webhooks that cannot be handed on: captured once, with a standing of their own."""

import json
from typing import Any

import pytest

from once.names import Metric
from once.webhooks.capture import Standing
from once.webhooks.endpoint import Endpoint
from tests.once.webhooks.service import ENDPOINTS, Service, stripe_body, stripe_request

GROUPED: dict[str, Any] = {"groups": {"stripe.charge.refunded": "charge"}}
WIDE = stripe_body(note="?").replace(b"?", "é".encode() * 60_000)
"""In the event, each character takes six bytes."""
NFD = b'{"id": "evt_1", "type": "charge.refunded", "e\xcc\x81": 1, "\xc3\xa9": 2}'

UNPUBLISHABLE: dict[str, tuple[dict[str, Any], bytes]] = {
    "over the limit of the topic": ({}, WIDE),
    "without its message group": (GROUPED, stripe_body()),
    "with an object as its message group": (GROUPED, stripe_body(charge={})),
    "of a type that was not deployed": ({"publishes": ()}, stripe_body()),
    "as deep as JSON may be": ({}, stripe_body(a=json.loads("[" * 63 + "]" * 63))),
}


@pytest.mark.parametrize(("settings", "body"), UNPUBLISHABLE.values(), ids=UNPUBLISHABLE)
def test_a_webhook_that_cannot_be_published_is_captured_once(
    settings: dict[str, Any], body: bytes
) -> None:
    service = Service(**settings)
    assert [service.post(stripe_request(body)) for _ in range(2)] == [200, 200]
    [capture] = service.captures()
    assert (capture.standing, capture.event_type) == (Standing.UNPUBLISHABLE, None)
    assert capture.body == body
    assert service.events() == []
    taken = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNPUBLISHABLE}
    assert service.counted() == [taken, {Metric.WEBHOOK_DUPLICATES}]


def test_a_body_with_two_keys_that_are_one_text_is_unreadable() -> None:
    service = Service()
    assert [service.post(stripe_request(NFD)) for _ in range(2)] == [200, 200]
    [capture] = service.captures()
    assert (capture.standing, capture.body) == (Standing.UNREADABLE, NFD)


def test_an_id_that_is_longer_than_a_key_is_handed_on_once() -> None:
    service = Service()
    body = stripe_body("e" * 100_000)
    assert [service.post(stripe_request(body)) for _ in range(2)] == [200, 200]
    assert [each.standing for each in service.captures()] == [Standing.HANDED_ON]
    assert len(service.events()) == 1


def test_texts_of_any_length_are_captured() -> None:
    service = Service()
    body = stripe_body(type="t" * 120_000)
    assert service.post(stripe_request(body) | {"rawQueryString": "q" * 500_000}) == 200
    [capture] = service.captures()
    assert capture.standing is Standing.CAPTURED
    assert len(capture.webhook_type) == 1024
    assert len(capture.path) == 8192


def test_a_conflict_is_captured_once_for_each_content() -> None:
    service = Service()
    first, second, third = (stripe_body(amount=n) for n in range(3))
    again = stripe_body(amount=1, pending_webhooks=7)  # a field that may differ
    for body in (first, second, second, again, third, first):
        assert service.post(stripe_request(body)) == 200
    conflict = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS}
    duplicate = {Metric.WEBHOOK_DUPLICATES}
    assert service.counted() == [
        *({Metric.WEBHOOKS_TAKEN}, conflict, duplicate, duplicate, conflict, duplicate),
    ]
    found = {each.body: each.standing for each in service.captures()}
    assert found == {
        first: Standing.HANDED_ON,
        second: Standing.CONFLICT,
        third: Standing.CONFLICT,
    }
    assert len(service.events()) == 1


@pytest.mark.parametrize("standing", [Standing.UNPUBLISHABLE, Standing.CAPTURED])
def test_a_conflict_with_a_webhook_that_was_not_handed_on(standing: Standing) -> None:
    kind = "charge.refunded" if standing is Standing.UNPUBLISHABLE else "payout.paid"
    service = Service(**GROUPED)
    for amount in (1, 2, 2):
        assert service.post(stripe_request(stripe_body(type=kind, amount=amount))) == 200
    assert {each.standing for each in service.captures()} == {Standing.CONFLICT, standing}
    assert service.counted()[2] == {Metric.WEBHOOK_DUPLICATES}


def test_a_conflict_under_the_longest_key_is_captured() -> None:
    service = Service()
    webhook_id = "%" * 512  # escaped, each takes three bytes
    for amount in (1, 2):
        assert service.post(stripe_request(stripe_body(webhook_id, amount=amount))) == 200
    assert max(len(each.pk) for each in service.captures()) > 1536
    standings = sorted(each.standing for each in service.captures())
    assert standings == [Standing.CONFLICT, Standing.HANDED_ON]


def test_a_record_that_cannot_be_read_counts_as_a_conflict() -> None:
    service = Service()
    pk = "webhooks#event#/webhooks/stripe#evt_1"
    service.dynamodb.put_item(TableName="dedup", Item={"pk": {"S": pk}})
    assert [service.post(stripe_request(stripe_body())) for _ in range(2)] == [200, 200]
    [capture] = service.captures()
    assert capture.standing is Standing.CONFLICT
    assert capture.pk != pk


def test_two_endpoints_never_share_a_webhook() -> None:
    twin = Endpoint("twin", ENDPOINTS[0].profile, types=("charge.refunded",))
    service = Service((*ENDPOINTS, twin))
    event = stripe_request(stripe_body())
    assert [service.post(event), service.post(event | {"rawPath": "/twin"})] == [200, 200]
    assert sorted(each.endpoint for each in service.captures()) == ["stripe", "twin"]
    assert len({event.id for event in service.events()}) == 2
