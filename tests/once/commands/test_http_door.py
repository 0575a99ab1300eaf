"""The HTTP door: routes, keys, scopes, answers and problems, in every shape that Lambda has."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from once import Scope
from once.commands.http_door import PROBLEMS, HttpDoor
from once.errors import RegistrationError
from once.runtime.lambda_http import LambdaAnswer
from once.testing import FakeAws, FakeContext, cancelled, inject, refused
from once.testing.faults import Fault
from tests.once.commands.shop import ORDER, ORDERS, api, http_request, shop

ROUTES = {"POST /orders": "place-order", "DELETE /orders/{order_id}": "cancel-order"}
ALICE, BOB = {"sub": "alice"}, {"sub": "bob"}
UUID = "8e03978e-40d5-43dd-bc93-6894a57f9324"
door = api.http(ROUTES, scope=Scope.claim("sub"))


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with shop(max_body_bytes=1000) as aws:
        yield aws


def post(data: Any = ORDER, **more: Any) -> dict[str, Any]:
    return http_request("POST", "/orders", data, **{"key": "k", "claims": ALICE, **more})


def sent(event: dict[str, Any], entry: HttpDoor = door) -> LambdaAnswer:
    return entry(event, FakeContext())


def problem(answer: LambdaAnswer) -> str:
    """Return the kind of an answer that has problem details."""
    assert answer["headers"]["content-type"] == "application/problem+json"
    members = json.loads(answer["body"])
    kind = str(members["type"]).removeprefix("urn:once:problem:")
    assert (answer["statusCode"], members["title"]) == PROBLEMS[kind]
    assert members["status"] == answer["statusCode"]
    # Only the faults of a body have a text for its sender.
    assert "detail" not in members or kind in ("invalid-data", "malformed-body")
    return kind


def test_a_request_is_answered_once_and_repeated_to_the_byte(aws: FakeAws) -> None:
    first, again = sent(post()), sent(post())
    assert first == {
        "statusCode": 201,
        "headers": {"content-type": "application/json", "location": "/orders/o-1"},
        "body": '{"order_id":"o-1"}',
    }
    headers = {**first["headers"], "idempotent-replayed": "true"}
    assert again == {**first, "headers": headers}
    assert aws.items(ORDERS) == [ORDER]


def test_a_field_of_the_path_is_a_field_of_the_data(aws: FakeAws) -> None:
    sent(post())
    assert sent(http_request("DELETE", "/orders/o-1", key="k", claims=ALICE))["statusCode"] == 204
    assert aws.items(ORDERS) == []


def test_a_refusal_is_repeated_to_the_byte(aws: FakeAws) -> None:
    sent(post())
    first, again = sent(post(key="other")), sent(post(key="other"))
    assert (first["statusCode"], first["body"]) == (409, again["body"])
    assert json.loads(first["body"])["title"] == "The order exists"


def test_nobody_gets_the_answer_of_another_scope(aws: FakeAws) -> None:
    alice = sent(post())
    bob = sent(post(claims=BOB))
    assert "idempotent-replayed" not in bob["headers"]
    assert (alice["statusCode"], bob["statusCode"]) == (201, 409)


def test_a_key_in_quotes_and_a_bare_uuid_are_one(aws: FakeAws) -> None:
    assert sent(post(key=UUID))["statusCode"] == 201
    bare = post(key=None, headers={"idempotency-key": UUID})
    assert sent(bare)["headers"]["idempotent-replayed"] == "true"


def test_the_digits_of_a_number_are_those_of_the_body(aws: FakeAws) -> None:
    assert sent(post('{"order_id": "o-1", "amount": 5.0}'))["statusCode"] == 201
    assert sent(post())["headers"]["idempotent-replayed"] == "true"


def test_the_trace_of_the_caller_goes_on_in_its_events(aws: FakeAws) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    sent(post(headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"}))
    [event] = aws.published()
    assert trace in event["traceparent"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no key": (post(key=None), "key-missing"),
    "an empty key": (post(key=""), "key-malformed"),
    "a huge key": (post(key="k" * 513), "key-malformed"),
    "a key that was sent twice": (
        post(key=None, headers={"idempotency-key": '"a","b"'}),
        "key-malformed",
    ),
    "a key without quotes": (post(key=None, headers={"idempotency-key": "abc"}), "key-malformed"),
    "no claims": (post(claims={}), "unauthenticated"),
    "no such claim": (post(claims={"email": "a@b"}), "unauthenticated"),
    "a blank claim": (post(claims={"sub": " "}), "unauthenticated"),
    "a lone surrogate in the claim": (post(claims={"sub": "\ud800"}), "unauthenticated"),
    "another alphabet in the path": (http_request("DELETE", "/orders/é", key="k"), "unknown-route"),
    "no such path": (http_request("POST", "/order", ORDER, key="k", claims=ALICE), "unknown-route"),
    "a longer path": (http_request("POST", "/orders/o-1/x", key="k"), "unknown-route"),
    "an encoded path": (http_request("DELETE", "/orders/a%2Fb", key="k"), "unknown-route"),
    "not JSON": (post("{"), "malformed-body"),
    "two members of one name": (post('{"order_id": "a", "order_id": "b"}'), "malformed-body"),
    "not base64": (post() | {"body": "!", "isBase64Encoded": True}, "failed"),
    "not UTF-8": (post() | {"body": "/w==", "isBase64Encoded": True}, "malformed-body"),
    "another model": (post({"order_id": "o-1"}), "invalid-data"),
    "no object": (post([]), "invalid-data"),
    "no body": (post(None), "invalid-data"),
    "a large body": (post({**ORDER, "sent_at": "x" * 1000}), "too-large"),
    "a body that is large in UTF-8": (post('"' + "é" * 600 + '"'), "too-large"),
    "a path that differs from the body": (
        http_request("DELETE", "/orders/o-1", {"order_id": "o-2"}, key="k", claims=ALICE),
        "invalid-data",
    ),
    "a path beside no object": (
        http_request("DELETE", "/orders/o-1", [], key="k", claims=ALICE),
        "invalid-data",
    ),
}


@pytest.mark.parametrize(("event", "kind"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_request_gets_a_clear_problem_and_stores_nothing(
    aws: FakeAws, event: dict[str, Any], kind: str
) -> None:
    answer = sent(event)
    assert problem(answer) == kind
    assert kind != "invalid-data" or json.loads(answer["body"])["detail"]
    assert aws.items("dedup") == aws.items(ORDERS) == []


def test_a_field_that_the_body_contradicts_is_named_as_one_of_the_path(aws: FakeAws) -> None:
    answer = sent(http_request("DELETE", "/orders/o-1", {"order_id": "x"}, key="k", claims=ALICE))
    assert json.loads(answer["body"])["detail"] == (
        "a field of the path is to be a field of the body, with one value if both have it"
    )


def test_a_body_of_the_largest_size_is_taken(aws: FakeAws) -> None:
    body = json.dumps({**ORDER, "sent_at": ""})
    largest = body[:-2] + "x" * (1000 - len(body)) + body[-2:]
    assert sent(post(largest))["statusCode"] == 201


def test_a_wrong_method_names_the_right_ones(aws: FakeAws) -> None:
    path = "/orders/{order_id}"
    routes = {f"{each} {path}": "cancel-order" for each in ("PATCH", "DELETE")}
    entry = api.http(routes, scope=Scope.by(lambda event: "all"))
    answer = sent(http_request("PUT", "/orders/o-1", ORDER, key="k"), entry)
    assert (problem(answer), answer["headers"]["allow"]) == ("wrong-method", "DELETE, PATCH")


def test_a_slash_at_the_end_of_a_route_is_none_of_its_path(aws: FakeAws) -> None:
    entry = api.http({"POST /orders/": "place-order"}, scope=Scope.public())
    assert sent(post(), entry)["statusCode"] == 201


def test_a_key_with_other_content_is_a_problem(aws: FakeAws) -> None:
    sent(post())
    assert problem(sent(post({**ORDER, "amount": 6}))) == "key-reused"


HINDERED: dict[str, tuple[Fault, str]] = {
    "the key": (cancelled("TransactionConflict", "None"), "in-progress"),
    "an item": (cancelled("None", "TransactionConflict"), "not-committed"),
    "capacity": (refused("ThrottlingException"), "not-committed"),
    "rights": (refused("AccessDeniedException"), "not-committed"),
}


@pytest.mark.parametrize(("fault", "kind"), HINDERED.values(), ids=HINDERED)
def test_a_command_that_is_not_done_in_time_may_be_sent_again(
    aws: FakeAws, fault: Fault, kind: str
) -> None:
    with inject(aws._library, "TransactWriteItems", *[fault] * 1000):
        answer = sent(post())
    assert (problem(answer), answer["headers"]["retry-after"]) == (kind, "1")
    assert sent(post())["statusCode"] == 201


@pytest.mark.parametrize("seconds", [0, 20])
def test_attempts_end_with_the_time_of_the_function(aws: FakeAws, seconds: int) -> None:
    margin_ms = api.runner.runtime.settings.time_margin_ms
    with inject(aws._library, "TransactWriteItems", *[refused("ThrottlingException")] * 1000):
        door(post(), FakeContext(margin_ms + seconds * 1000))
    assert bool(aws.slept) == bool(seconds)


def test_an_error_of_the_handler_is_a_problem_without_its_text(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: Any, tx: Any) -> None:
        raise ValueError(command.order_id)

    broken = replace(api.handlers["place-order"], function=fail)
    with monkeypatch.context() as patched:
        patched.setitem(api.handlers, "place-order", broken)
        answer = sent(post())
    assert problem(answer) == "failed"
    assert "o-1" not in answer["body"]
    assert sent(post())["statusCode"] == 201


def v1(**context: Any) -> dict[str, Any]:
    return {
        "httpMethod": "POST",
        "path": "/orders",
        "headers": {"Idempotency-Key": '"k"'},
        "requestContext": context,
        "body": json.dumps(ORDER),
        "isBase64Encoded": False,
    }


CLAIMS = {"authorizer": {"claims": ALICE}}
SHAPES: dict[str, dict[str, Any]] = {
    "HTTP API, 2.0": post(),
    "HTTP API, 2.0, in a stage": {
        **post(),
        "rawPath": "/prod/orders",
        "requestContext": {**post()["requestContext"], "stage": "prod"},
    },
    "HTTP API, 1.0": {**v1(stage="prod", **CLAIMS), "version": "1.0", "path": "/prod/orders"},
    "REST API": v1(stage="prod", **CLAIMS),
    "REST API, several values": {
        **v1(stage="prod", **CLAIMS),
        "multiValueHeaders": {"Idempotency-Key": ['"k"']},
    },
}


@pytest.mark.parametrize("event", SHAPES.values(), ids=SHAPES)
def test_every_api_with_claims_reaches_the_same_command(
    aws: FakeAws, event: dict[str, Any]
) -> None:
    sent(post())
    assert sent(event)["headers"]["idempotent-replayed"] == "true"


@pytest.mark.parametrize("several", [False, True])
def test_a_load_balancer_is_answered_in_its_own_shape(aws: FakeAws, *, several: bool) -> None:
    entry = api.http(ROUTES, scope=Scope.public())
    event = v1(elb={"targetGroupArn": "arn"})
    if several:
        event["multiValueHeaders"] = {"idempotency-key": ['"k"']}
        del event["headers"]
    answer = sent(event, entry)
    assert (answer["statusCode"], answer["statusDescription"]) == (201, "201 Created")
    lists = {name: [value] for name, value in answer["headers"].items()}
    assert answer.get("multiValueHeaders") == (lists if several else None)


def test_a_function_url_is_scoped_by_its_iam_caller(aws: FakeAws) -> None:
    entry = api.http(ROUTES, scope=Scope.iam())
    event = post(claims={})
    event["requestContext"]["authorizer"] = {"iam": {"userId": "AIDA1", "accountId": "1"}}
    assert sent(event, entry)["statusCode"] == 201
    event["requestContext"]["authorizer"]["iam"]["userId"] = "AIDA2"
    assert sent(event, entry)["statusCode"] == 409


FAULTS: dict[str, tuple[Any, Any, str]] = {
    "no scope": (ROUTES, None, "has no scope.*Scope.claim.*Scope.public"),
    "a text as scope": (ROUTES, "sub", "has no scope"),
    "a claim without a name": (ROUTES, Scope.claim(), "names nothing"),
    "a blank name": (ROUTES, Scope.claim("sub", ""), "names nothing"),
    "a name that is no text": (ROUTES, Scope.claim(7), "names nothing"),  # type: ignore[arg-type]
    "a field without a name": (ROUTES, Scope.authorizer(), "names nothing"),
    "a function that is none": (ROUTES, Scope.by("sub"), "has no function"),  # type: ignore[arg-type]
    "no route": (
        {},
        Scope.public(),
        r'- http\(\) has no route; give {"POST /orders": "place-order"}',
    ),
    "a path alone": (
        {"/orders": "place-order"},
        Scope.public(),
        r"give a method \(POST, PUT, PATCH, DELETE\) and a path in which each field is named once, "
        r"as 'POST /orders/\{order_id\}/cancel'",
    ),
    "a method that changes nothing": ({"GET /o": "place-order"}, Scope.public(), "is no route"),
    "a field twice": ({"POST /{a}/{a}": "place-order"}, Scope.public(), "is no route"),
    "an unclosed field": ({"POST /{a": "place-order"}, Scope.public(), "is no route"),
    "an unknown command": ({"POST /orders": "place"}, Scope.public(), "register one with @api.h"),
}


@pytest.mark.parametrize(("routes", "scope", "text"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_declaration_is_refused_at_load(routes: Any, scope: Any, text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        api.http(routes, scope=scope)
