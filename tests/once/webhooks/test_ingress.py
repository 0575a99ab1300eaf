"""The ingress: capture, dedup record and event in one transaction, and the answer after it."""

import pytest

from once.events.outgoing import events_in
from once.webhooks.capture import Standing
from tests.once.webhooks.service import NOW, Service, stripe_body, stripe_request


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_webhook_is_captured_and_handed_on_as_one_event(service: Service) -> None:
    body = stripe_body()
    assert service.post(stripe_request(body)) == 200
    [capture] = service.captures()
    assert (capture.body, capture.webhook_id, capture.standing) == (
        body,
        "evt_1",
        Standing.HANDED_ON,
    )
    [event] = service.events()
    assert (event.type, event.source) == ("stripe.charge.refunded", "/once/webhooks")


def test_a_webhook_that_comes_again_makes_no_second_event(service: Service) -> None:
    later = NOW + 100
    assert service.post(stripe_request(stripe_body(pending_webhooks=1))) == 200
    service.now = later
    assert service.post(stripe_request(stripe_body(pending_webhooks=0), at=later)) == 200
    assert len(service.events()) == len(service.captures()) == 1


def test_a_forged_webhook_leaves_nothing(service: Service) -> None:
    assert service.post(stripe_request(stripe_body(), secret="another")) == 401
    assert [*service.events(), *service.captures()] == []


def test_an_id_with_other_content_is_captured_as_a_conflict(service: Service) -> None:
    assert service.post(stripe_request(stripe_body(amount=1))) == 200
    assert service.post(stripe_request(stripe_body(amount=2))) == 200
    assert sorted(each.standing for each in service.captures()) == ["conflict", "handed-on"]
    assert len(service.events()) == 1


def test_an_event_of_an_ordered_type_is_in_the_sequence_of_its_group() -> None:
    kind = "stripe.charge.refunded"
    service = Service(groups={kind: "charge"}, ordered_types=(kind,))
    for number in range(2):
        assert service.post(stripe_request(stripe_body(f"evt_{number}", charge="ch_1"))) == 200
    items = service.dynamodb.scan(TableName="dedup")["Items"]
    [sequence] = (item for item in items if item["pk"]["S"] == "webhooks#sequence#ch_1")
    assert [event.type for event in events_in(sequence)] == [kind]
    assert len(service.captures()) == 2
