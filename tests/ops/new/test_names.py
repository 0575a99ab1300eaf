import pytest

from once.ops.errors import OpsError
from once.ops.new.naming import check_name, check_type, class_name, default_type


@pytest.mark.parametrize(
    ("name", "event_type"),
    [
        ("refunds", "refund.requested"),
        ("deliveries", "delivery.requested"),
        ("addresses", "address.requested"),
        ("boxes", "box.requested"),
        ("loyalty", "loyalty.requested"),
        ("status", "status.requested"),
        ("us", "us.requested"),
    ],
)
def test_the_default_type_has_the_names_singular(name: str, event_type: str) -> None:
    assert default_type(name) == event_type


def test_a_class_is_named_after_its_type() -> None:
    assert class_name("stripe.charge.refunded_again") == "StripeChargeRefundedAgain"


@pytest.mark.parametrize("name", ["Refunds", "1st", "a-b", "", "x" * 41, "../up", "outbox_relay"])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(OpsError, match=r"use at most 40|choose another"):
        check_name(name)


@pytest.mark.parametrize("event_type", ["", "a,b", " x", "…", "1.x"])
def test_a_type_that_cannot_be_used_is_refused(event_type: str) -> None:
    with pytest.raises(OpsError, match="cannot be an event type here: use words"):
        check_type(event_type)
