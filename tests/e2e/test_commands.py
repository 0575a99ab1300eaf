"""Commands on the deployed service: orders over HTTP, signed, repeated, and answered the same."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from demo.quiescence import wait_until
from once.commands.answer import REPEATED
from once.names import StackOutput
from tests.e2e.deployment import REST_SECONDS, Deployment
from tests.e2e.test_orders import shelf, unique

INVOKE = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}],
}


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The anchor of the problem's type."""
        return str(json.loads(self.body)["type"]).rpartition("#")[2]


class Client:
    """A client of the shop's API, which signs its requests as an IAM user."""

    def __init__(self, service: Deployment, user: str) -> None:
        self._aws = service.aws
        iam = service.aws.client("iam")
        iam.create_user(UserName=user)
        iam.put_user_policy(UserName=user, PolicyName="Invoke", PolicyDocument=json.dumps(INVOKE))
        made = iam.create_access_key(UserName=user)["AccessKey"]
        self._credentials = Credentials(made["AccessKeyId"], made["SecretAccessKey"])
        url = outputs(service)[f"{StackOutput.COMMANDS_URL}Checkout"]
        api = str(urlsplit(url).hostname).partition(".")[0]
        address = urlsplit(service.aws.endpoint)
        # The embedded AWS has one address, and finds an API by the header Host.
        self._host = f"{api}.execute-api.{address.hostname}"

    def post(self, order: Any, *, signed: bool = True, **headers: str) -> Answered:
        body = json.dumps(order).encode()
        headers = {"host": self._host, "content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = AWSRequest("POST", f"https://{self._host}/orders", headers, body)
        if signed:
            SigV4Auth(self._credentials, "execute-api", "us-east-1").add_auth(request)
        with urllib3.PoolManager(ca_certs=str(self._aws.certificate), retries=False) as pool:
            url = f"{self._aws.endpoint}/orders"
            answer = pool.request("POST", url, body=body, headers=dict(request.headers))
        found = {name.lower(): value for name, value in answer.headers.items()}
        return Answered(answer.status, found, answer.data)


def outputs(service: Deployment) -> dict[str, str]:
    [stack] = service.aws.client("cloudformation").describe_stacks(StackName="once-service")[
        "Stacks"
    ]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


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
def clients(service: Deployment) -> tuple[Client, Client]:
    return Client(service, "browser"), Client(service, "partner")


def test_an_order_that_is_posted_again_is_answered_by_the_same_bytes_and_placed_once(
    service: Deployment, clients: tuple[Client, Client]
) -> None:
    client, _ = clients
    placed, key = order(service), f'"{unique("key")}"'
    first = client.post(placed, idempotency_key=key)
    assert (first.status, REPEATED in first.headers) == (202, False)
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: client.post(placed, idempotency_key=key), range(4)))
    assert {(each.status, each.body) for each in again} == {(202, first.body)}
    assert {each.headers[REPEATED] for each in again} == {"true"}
    name = placed["order_id"]
    wait_until(
        "the order is paid",
        lambda: service.get("orders", order_id=name).get("status") == "paid",
        timeout=REST_SECONDS,
    )
    assert service.get("customers", customer_id=placed["customer_id"])["orders_placed"] == "1"
    assert [charge["amount"] for charge in service.charges(name)] == [2500]


def test_requests_that_are_not_commands_change_nothing(
    service: Deployment, clients: tuple[Client, Client]
) -> None:
    client, _ = clients
    placed, key = order(service), f'"{unique("key")}"'
    assert client.post(placed, idempotency_key=key).status == 202
    other = client.post(placed | {"email": "other@example.com"}, idempotency_key=key)
    assert (other.status, other.kind) == (422, "key-reused")
    unsent = order(service)
    missing = client.post(unsent)
    assert (missing.status, missing.kind) == (400, "key-missing")
    malformed = client.post(unsent, idempotency_key="no quotes")
    assert (malformed.status, malformed.kind) == (400, "key-malformed")
    assert client.post(unsent, idempotency_key=key, signed=False).status == 403
    assert service.get("orders", order_id=unsent["order_id"]) == {}


def test_two_callers_may_choose_one_key_and_none_gets_the_answer_of_the_other(
    service: Deployment, clients: tuple[Client, Client]
) -> None:
    key, orders = f'"{unique("key")}"', [order(service), order(service)]
    answers = [c.post(o, idempotency_key=key) for c, o in zip(clients, orders, strict=True)]
    assert [json.loads(each.body)["order_id"] for each in answers] == [
        each["order_id"] for each in orders
    ]
    taken = clients[0].post(orders[1], idempotency_key=f'"{unique("key")}"')
    assert (taken.status, json.loads(taken.body)["title"]) == (
        409,
        "There is an order with this id",
    )
