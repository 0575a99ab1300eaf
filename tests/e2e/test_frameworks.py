"""Commands in the routes of web frameworks, as functions that another tool has deployed."""

import http.client
import io
import json
import ssl
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from once.cdk import DeploymentConfig
from once.cdk.packaging.function_package import package
from once.cdk.permissions import ONLY_IN_TRANSACTIONS, PUT, READS, UPDATE
from once.settings import CommandSettings, TableSettings
from tests.e2e.app import FUNCTIONS
from tests.e2e.deployment import Deployment

FRAMEWORKS = ("resolver", "fastapi_routes")
AT_A_TIME = 6


class Answer(NamedTuple):
    status: int
    body: bytes
    repeated: str | None


class Checkout:
    """A function with commands and its URL."""

    def __init__(self, service: Deployment, function: str) -> None:
        self.service, self.function = service, function
        url = service.aws.client("lambda").get_function_url_config(FunctionName=function)
        self._host = urlsplit(url["FunctionUrl"]).netloc
        self._trust = ssl.create_default_context(cafile=str(service.aws.certificate))

    def post(self, order: str, *, key: str, client: str = "a", amount: int = 1) -> Answer:
        address = urlsplit(self.service.aws.endpoint).hostname or ""
        headers = {
            "host": self._host,
            "content-type": "application/json",
            "idempotency-key": f"{self.function}-{key}",  # both functions have the same records
            "x-client": client,
        }
        body = json.dumps({"order": f"{self.function}-{order}", "amount": amount})
        connection = http.client.HTTPSConnection(
            address, self.service.aws.port, timeout=60, context=self._trust
        )
        with closing(connection):
            connection.request("POST", "/orders", body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), answer.getheader("x-repeated"))

    def amount(self, order: str) -> int:
        """Return the sum of the amounts that took effect."""
        counter = self.service.get("counters", id=f"{self.function}-{order}")
        return int(counter.get("amount", 0))


@pytest.fixture(scope="module", params=FRAMEWORKS)
def checkout(service: Deployment, request: pytest.FixtureRequest) -> Checkout:
    """A function that may write inside transactions only, as those of the constructs."""
    aws, framework = service.aws, request.param
    own, folder = f"checkout-{framework}", FUNCTIONS / "checkout"
    staged = package("checkout", folder, (), DeploymentConfig(local=True))
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        for path in staged.rglob("*"):
            archive.write(path, path.relative_to(staged))
    settings = CommandSettings(
        consumer="checkout",
        commands=("place-order",),
        dedup_table=str(service.parts.dedup_table),
        tables={"counters": TableSettings(service.parts.table("counters"), ("id",))},
        dedup_window_seconds=3600,
    )
    function = aws.client("lambda")
    function.create_function(
        FunctionName=own,
        Runtime="python3.11",
        Role=_role(aws.client("iam"), own),
        Handler=f"functions.checkout.{framework}.lambda_handler",
        Code={"ZipFile": code.getvalue()},
        Timeout=30,
        Environment={"Variables": settings.to_env()},
    )
    function.create_function_url_config(FunctionName=own, AuthType="NONE")
    return Checkout(service, own)


def _role(iam: Any, name: str) -> str:
    trust = {"Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    writes = {"Action": [PUT, UPDATE], "Condition": ONLY_IN_TRANSACTIONS}
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(trust))
    policy = _policy({**writes, "Resource": "*"}, {"Action": READS, "Resource": "*"})
    iam.put_role_policy(RoleName=name, PolicyName="commands", PolicyDocument=policy)
    return str(role["Role"]["Arn"])


def _policy(*statements: dict[str, Any]) -> str:
    allowed = [{"Effect": "Allow", **each} for each in statements]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed})


def test_a_repeated_request_has_the_bytes_of_the_first_answer(checkout: Checkout) -> None:
    first, again = (checkout.post("repeated", key="k-1") for _ in range(2))
    assert (first.status, first.repeated) == (201, "False")
    assert again == first._replace(repeated="True")
    assert checkout.amount("repeated") == 1


def test_a_key_with_other_content_is_refused(checkout: Checkout) -> None:
    assert checkout.post("other", key="k-2").status == 201
    assert checkout.post("other", key="k-2", amount=5).status == 422
    assert checkout.amount("other") == 1


def test_another_client_with_the_same_key_has_a_command_of_its_own(checkout: Checkout) -> None:
    mine, theirs = (checkout.post("shared", key="k-3", client=each) for each in "ab")
    assert (theirs.status, theirs.repeated) == (201, "False")
    assert mine.body != theirs.body
    assert checkout.amount("shared") == 2


def test_parallel_requests_take_effect_once_and_get_one_answer(checkout: Checkout) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        answers = [*pool.map(lambda _: checkout.post("parallel", key="k-4"), range(AT_A_TIME))]
    assert {(answer.status, answer.body) for answer in answers} == {(201, answers[0].body)}
    assert Counter(answer.repeated for answer in answers) == {"False": 1, "True": AT_A_TIME - 1}
    assert checkout.amount("parallel") == 1
