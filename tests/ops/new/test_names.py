import pytest

from once.ops.errors import OpsError
from once.ops.new.consumer_files import check_name, check_type, class_name, singular


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("refunds", "refund"),
        ("deliveries", "delivery"),
        ("addresses", "address"),
        ("boxes", "box"),
        ("loyalty", "loyalty"),
        ("status", "status"),
        ("us", "us"),
    ],
)
def test_the_singular_of_a_name_is_found(name: str, expected: str) -> None:
    assert singular(name) == expected


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
