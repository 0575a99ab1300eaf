"""Commands on the deployed service: orders over HTTP, signed, repeated, and answered the same."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from demo.quiescence import wait_until
from demo.shop import Shop
from demo.traffic.caller import Answer, Caller
from tests.e2e.deployment import REST_SECONDS, Deployment
from tests.e2e.issuer import Issuer, new_key
from tests.e2e.test_orders import shelf, unique


def posted(caller: Caller, order: Any, **headers: str) -> Answer:
    """Post an order with further headers; return its answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = caller.send(json.dumps(order).encode(), named)
    assert answer is not None
    return answer


def kind(answer: Answer) -> str:
    """Return the last part of the type of a problem."""
    return str(json.loads(answer.body)["type"]).rpartition(":")[2]


def order(service: Deployment, **changes: Any) -> dict[str, Any]:
    number = unique("order")
    return {
        "order_id": number,
        "customer_id": f"customer-of-{number}",
        "email": f"{number}@example.com",
        "payment_method": "pm_card_visa",
        "currency": "EUR",
        "lines": [{"sku": shelf(service), "quantity": 2, "unit_price": 1250}],
    } | changes


@pytest.fixture(scope="module")
def callers(service: Deployment) -> list[Caller]:
    return Shop(service.aws, service.sandbox, service.parts).callers


def test_an_order_that_is_posted_again_is_answered_by_the_same_bytes_and_placed_once(
    service: Deployment, callers: list[Caller]
) -> None:
    caller, _ = callers
    placed, key = order(service), f'"{unique("key")}"'
    first = posted(caller, placed, idempotency_key=key)
    assert (first.status, first.repeated) == (202, False)
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: posted(caller, placed, idempotency_key=key), range(4)))
    assert {(each.status, each.body) for each in again} == {(202, first.body)}
    assert all(each.repeated for each in again)
    name = placed["order_id"]
    wait_until(
        "the order is paid",
        lambda: service.get("orders", order_id=name).get("status") == "paid",
        timeout=REST_SECONDS,
    )
    assert service.get("customers", customer_id=placed["customer_id"])["orders_placed"] == "1"
    assert [charge["amount"] for charge in service.charges(name)] == [2500]


def test_requests_that_are_not_commands_change_nothing(
    service: Deployment, callers: list[Caller]
) -> None:
    caller, _ = callers
    placed, key = order(service), f'"{unique("key")}"'
    assert posted(caller, placed, idempotency_key=key).status == 202
    other = posted(caller, placed | {"email": "other@example.com"}, idempotency_key=key)
    assert (other.status, kind(other)) == (422, "key-reused")
    unsent = order(service)
    missing = posted(caller, unsent)
    assert (missing.status, kind(missing)) == (400, "key-missing")
    malformed = posted(caller, unsent, idempotency_key="no quotes")
    assert (malformed.status, kind(malformed)) == (400, "key-malformed")
    assert posted(replace(caller, credentials=None), unsent, idempotency_key=key).status == 403
    assert service.get("orders", order_id=unsent["order_id"]) == {}


def test_two_callers_may_choose_one_key_and_none_gets_the_answer_of_the_other(
    service: Deployment, callers: list[Caller]
) -> None:
    key, orders = f'"{unique("key")}"', [order(service), order(service)]
    answers = [posted(c, o, idempotency_key=key) for c, o in zip(callers, orders, strict=True)]
    assert [json.loads(each.body)["order_id"] for each in answers] == [
        each["order_id"] for each in orders
    ]
    taken = posted(callers[0], orders[1], idempotency_key=f'"{unique("key")}"')
    assert (taken.status, json.loads(taken.body)["title"]) == (
        409,
        "There is an order with this id",
    )


def test_a_command_is_sent_by_once_send_to_the_address_that_was_deployed(
    service: Deployment,
) -> None:
    placed, key = order(service), unique("key")
    sent = ("send", "--to", "checkout", "--route", "POST /orders", "--sign", "--key", key, "--json")
    first, again = (json.loads(service.ops(*sent, "--data", json.dumps(placed))) for _ in "12")
    assert (first["status"], first["repeated"]) == (202, False)
    assert again == first | {"repeated": True}
    other = placed | {"email": "other@example.com"}
    refused = json.loads(service.ops(*sent, "--data", json.dumps(other), code=1))
    assert (refused["status"], refused["repeated"]) == (422, False)


def test_a_bearer_of_a_token_is_the_one_that_its_issuer_names(
    service: Deployment, callers: list[Caller], issuer: Issuer
) -> None:
    url = str(service.parts.door("desk").url)
    desk = replace(callers[0], url=url, credentials=None)
    key, visit = f'"{unique("key")}"', {"visitor": unique("visitor")}

    def visited(token: str) -> Answer:
        return posted(desk, visit, idempotency_key=key, authorization=f"Bearer {token}")

    first, again = visited(issuer.token("alice")), visited(issuer.token("alice"))
    assert (first.status, again) == (201, replace(first, repeated=True))
    other = visited(issuer.token("bob"))
    assert (other.status, other.repeated, other.body == first.body) == (201, False, False)
    now = int(time.time())
    refused = (
        issuer.token("alice", key=new_key()),
        issuer.token("alice", aud="another"),
        issuer.token("alice", iss="http://another"),
        issuer.token("alice", exp=now - 1),
        issuer.token("alice", nbf=now + 600),
        "",
    )
    assert {visited(token).status for token in refused} == {401}
    assert service.get("counters", id=visit["visitor"])["amount"] == "2"
