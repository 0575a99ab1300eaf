"""HTTP requests as function URLs and HTTP APIs pass them on."""

import base64
from typing import Any

import pytest

from once.webhooks.webhook import Request, RequestLine, answer, body_bytes

CONTEXT = {
    "accountId": "123456789012",
    "apiId": "api-id",
    "authentication": None,
    "domainName": "id.execute-api.us-east-1.amazonaws.com",
    "domainPrefix": "id",
    "http": {
        "method": "POST",
        "path": "/my/path",
        "protocol": "HTTP/1.1",
        "sourceIp": "192.0.2.1",
        "userAgent": "agent",
    },
    "requestId": "id",
    "routeKey": "$default",
    "stage": "$default",
    "time": "12/Mar/2020:19:03:58 +0000",
    "timeEpoch": 1583348638390,
}
EVENT: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/my/path",
    "rawQueryString": "parameter1=value1&parameter1=value2&parameter2=value",
    "cookies": ["cookie1", "cookie2"],
    "headers": {"header1": "value1", "header2": "value1,value2"},
    "queryStringParameters": {"parameter1": "value1,value2", "parameter2": "value"},
    "requestContext": CONTEXT,
    "body": "Hello from client!",
    "pathParameters": None,
    "isBase64Encoded": False,
    "stageVariables": None,
}
"""The example that AWS documents for function URLs."""

HTTP_API = EVENT | {
    "body": "Hello from Lambda",
    "pathParameters": {"parameter1": "value1"},
    "stageVariables": {"stageVariable1": "value1"},
}
"""The one for HTTP APIs, as far as it differs."""


@pytest.mark.parametrize("event", [EVENT, HTTP_API], ids=["function URL", "HTTP API"])
def test_the_examples_of_aws_are_read(event: dict[str, Any]) -> None:
    request = Request.of(event)
    assert request == Request(
        "POST",
        "/my/path?parameter1=value1&parameter1=value2&parameter2=value",
        {"header1": "value1", "header2": "value1,value2"},
        event["body"].encode(),
    )
    assert RequestLine.of(event).endpoint == "my/path"


@pytest.mark.parametrize(
    ("path", "stage", "endpoint"),
    [
        ("/stripe", "$default", "stripe"),
        ("/stripe/", "$default", "stripe"),
        ("/prod/stripe", "prod", "stripe"),
        ("/stripe", "prod", "stripe"),
        ("/stripe", "stripe", ""),
        ("/production", "prod", "production"),
        ("/prod/stripe", "$default", "prod/stripe"),
        ("/", "$default", ""),
    ],
)
def test_the_endpoint_is_the_path_without_the_stage(path: str, stage: str, endpoint: str) -> None:
    event = EVENT | {"rawPath": path, "requestContext": CONTEXT | {"stage": stage}}
    assert RequestLine.of(event).endpoint == endpoint


BODIES: dict[str, tuple[dict[str, Any], bytes]] = {
    "text": ({"body": "é"}, "é".encode()),
    "base64": (
        {"body": base64.b64encode(b"\x00\xff").decode(), "isBase64Encoded": True},
        b"\0\xff",
    ),
    "null": ({"body": None}, b""),
    "empty": ({"body": "", "isBase64Encoded": True}, b""),
    "lone surrogate": ({"body": "\ud800"}, b"?"),
}


@pytest.mark.parametrize(("fields", "body"), BODIES.values(), ids=BODIES)
def test_a_body_is_read(fields: dict[str, Any], body: bytes) -> None:
    assert Request.of(EVENT | fields).body == body


def test_a_missing_body_and_missing_headers_are_empty() -> None:
    event = {name: EVENT[name] for name in ("rawPath", "requestContext")}
    assert Request.of(event) == Request("POST", "/my/path", {}, b"")


def test_the_names_of_headers_are_in_lower_case() -> None:
    event = EVENT | {"headers": {"Stripe-Signature": "T=1"}}
    assert Request.of(event).headers == {"stripe-signature": "T=1"}


@pytest.mark.parametrize("size", range(7))
def test_the_size_of_a_body_is_known_without_decoding_it(size: int) -> None:
    body = b"x" * size
    assert body_bytes({"body": base64.b64encode(body).decode(), "isBase64Encoded": True}) == size
    assert body_bytes({"body": body.decode()}) == size


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"version": "1.0", "path": "/stripe", "httpMethod": "POST", "requestContext": {}},
        {"Records": []},
        EVENT | {"headers": {"a": ["b"]}},
        EVENT | {"body": {"a": 1}},
        EVENT | {"body": "!", "isBase64Encoded": True},
        EVENT | {"rawPath": None},
    ],
)
def test_an_event_of_another_form_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Request.of(event)


def test_an_answer_is_a_text() -> None:
    headers = {"content-type": "text/plain", "allow": "POST"}
    assert answer(405, allow="POST") == {"statusCode": 405, "headers": headers, "body": ""}
