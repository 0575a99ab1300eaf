"""Requests and answers in the shapes of Lambda; payload format 2.0 is in tests/once/webhooks."""

from typing import Any

import pytest

from once.runtime.lambda_http import Request, answer, answer_to, route_of

EVENT: dict[str, Any] = {
    "version": "1.0",
    "resource": "/my/path",
    "path": "/my/path",
    "httpMethod": "post",
    "headers": {"header1": "value1", "Header2": "value2"},
    "multiValueHeaders": {"header1": ["value1"], "Header2": ["value1", "value2"]},
    "queryStringParameters": {"parameter1": "value2"},
    "multiValueQueryStringParameters": {"parameter1": ["value1", "value 2"]},
    "requestContext": {"stage": "$default", "identity": {}},
    "body": "Hello",
    "isBase64Encoded": False,
}


def test_a_request_of_payload_format_1_is_read() -> None:
    assert Request.of(EVENT) == Request(
        "POST",
        "/my/path?parameter1=value1&parameter1=value+2",
        {"header1": "value1", "header2": "value1,value2"},
        b"Hello",
    )


def test_single_values_count_where_there_are_no_others() -> None:
    names = ("path", "httpMethod", "requestContext", "headers", "queryStringParameters")
    found = Request.of({name: EVENT[name] for name in names})
    assert found.path == "/my/path?parameter1=value2"
    assert found.headers == {"header1": "value1", "header2": "value2"}


@pytest.mark.parametrize(
    ("version", "path"), [({"version": "1.0"}, "my/path"), ({}, "prod/my/path")]
)
def test_only_an_http_api_begins_a_path_with_its_stage(version: dict[str, str], path: str) -> None:
    event = {"httpMethod": "POST", "requestContext": {"stage": "prod"}, **version}
    assert route_of({**event, "path": "/prod/my/path"}) == ("POST", path)


@pytest.mark.parametrize("context", [{}, {"http": {}}, None])
def test_an_answer_stays_as_it_is_outside_of_a_load_balancer(context: Any) -> None:
    assert answer_to({"requestContext": context}, answer(200)) == answer(200)
