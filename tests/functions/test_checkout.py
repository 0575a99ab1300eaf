from collections.abc import Callable
from typing import Any

import pytest

from once.errors import KeyConflict
from once.testing import FakeAws

ORDER: dict[str, Any] = {
    "order_id": "o-1",
    "customer_id": "c-1",
    "email": "one@example.com",
    "payment_method": "pm_card_visa",
    "currency": "EUR",
    "lines": [{"sku": "tea", "quantity": 2, "unit_price": 350}],
}


@pytest.fixture
def aws(once_aws: Callable[..., FakeAws]) -> FakeAws:
    return once_aws("checkout")


def test_an_order_is_placed_once_and_its_event_has_all_of_it(aws: FakeAws) -> None:
    reply = aws.run("place-order", ORDER, key="k")
    assert (reply.status, reply.value) == (202, {"order_id": "o-1"})
    assert aws.items("orders") == [{"order_id": "o-1", "customer_id": "c-1"}]
    [event] = aws.published()
    assert (event["type"], event["subject"], event["data"]) == ("order.submitted", "o-1", ORDER)
    with pytest.raises(KeyConflict):
        aws.run("place-order", ORDER | {"currency": "USD"}, key="k")


def test_an_id_that_is_taken_is_refused_for_good(aws: FakeAws) -> None:
    aws.run("place-order", ORDER, key="k")
    reply = aws.run("place-order", ORDER, key="another")
    assert (reply.status, reply.refusal) == (409, "OrderExists")
    assert len(aws.published()) == 1
