"""Commands in `trace`, `status` and `send`: their records, requests and figures."""

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session

from once.commands.http_door import key_in
from once.events.identity import command_key, key_hash
from once.events.outgoing import event_id_of
from once.names import StackOutput
from once.ops.errors import ExitCode
from tests.ops.checkout import FIGURES, ORDER, SCOPE, SECRET, URL, Door, some_requests
from tests.ops.cloud import Cloud
from tests.ops.support import rows, run, stderr_of, stdout_of
from tests.ops.tracing import actions, moments


def test_a_command_is_found_by_scope_and_key_with_its_answer_and_events(door: Door) -> None:
    door.request("k-1", order_id="o-1")
    door.request("k-1", scope="another", order_id="o-2")
    for scope in (SCOPE, '["claim", "sub", "u-1"]'):
        [moment] = moments("k-1", "--scope", scope)
        assert (moment["consumer"], moment["event_type"]) == ("checkout", "place-order")
        assert (moment["what"], moment["published"]) == ("committed", ["order.placed"])
        assert (moment["answer_status"], moment["answer_bytes"]) == (201, 23)
    pk = command_key("checkout", scope=SCOPE, command="place-order", key="k-1")
    assert moments(pk) == [moment]
    consumed = f"orders#event#/once/checkout#{event_id_of(key_hash(pk), 0)}"
    door.cloud.put_record(consumed, time.time(), 2e9, cause={"S": pk})
    for given in (("k-1", "--scope", SCOPE), (key_hash(pk),)):
        assert actions(*given) == [("checkout", "committed"), ("orders", "committed")]
    output = stdout_of("trace", "k-1", "--scope", SCOPE)
    assert "answer status: 201" in output
    assert SECRET not in output


def test_a_trace_shows_repeated_conflicting_invalid_and_failed_requests(door: Door) -> None:
    door.request("k-1", order_id="o-1", fails=True)
    door.request("k-1", order_id="taken")
    door.request("k-1", order_id="taken")
    door.request("k-1", order_id="o-2")
    assert sorted(actions("k-1", "--scope", SCOPE)) == [
        ("checkout", "command failed"),
        ("checkout", "conflicting"),
        ("checkout", "refused"),
        ("checkout", "repeated"),
    ]
    shown = moments("k-1", "--scope", SCOPE)
    assert {moment["event_type"] for moment in shown} == {"place-order"}
    [error] = [moment["error"] for moment in shown if "error" in moment]
    assert error.startswith("ZeroDivisionError")
    assert "a secret" not in error
    assert {moment.get("answer_status") for moment in shown} >= {409}


def test_a_failed_command_is_found_by_the_hash_in_its_log(door: Door) -> None:
    door.request("k-1", order_id="o-1", fails=True)
    pk = command_key("checkout", scope=SCOPE, command="place-order", key="k-1")
    assert actions(key_hash(pk)) == actions("k-1", "--scope", SCOPE)
    assert actions(key_hash(pk)) == [("checkout", "command failed")]


def test_a_command_is_not_found_without_its_scope(door: Door) -> None:
    door.request("k-1", order_id="o-1")
    error = stderr_of("trace", "k-1")
    assert "a command's key the --scope of its sender" in error
    error = stderr_of("trace", "k-1", "--scope", "another")
    assert (
        f"key {command_key('checkout', scope='another', command='take-back', key='k-1')}" in error
    )
    assert "logs of inventory, orders, checkout" in error


def test_an_answer_that_cannot_be_read_is_said(door: Door) -> None:
    pk = command_key("checkout", scope="s", command="place-order", key="k-1")
    door.cloud.put_record(pk, 1e9, 2e9, answer={"S": "?"})
    [moment] = moments("k-1", "--scope", "s", "--no-logs")
    assert moment["answer"] == "not-readable"


def test_status_shows_the_outcomes_of_the_requests_of_the_last_hour(door: Door) -> None:
    some_requests(door)
    [found] = json.loads(stdout_of("status", "--json"))["commands"]
    assert found == {"name": "checkout", "requests": FIGURES, "start_error": None, "stuck": []}
    assert rows(stdout_of("status"))[-1] == ["checkout", "1", "1", "1", "1", "0", "1"]


@pytest.mark.usefixtures("cloud")
def test_status_without_commands_names_none() -> None:
    assert json.loads(stdout_of("status", "--json"))["commands"] == []
    assert "requests" not in stdout_of("status")


def test_commands_whose_function_cannot_start_are_stuck(door: Door) -> None:
    report = "INIT_REPORT Init Duration: 402.23 ms\tPhase: init\tStatus: error\tError Type: X"
    door.cloud.log("checkout", "[ERROR] ValueError: no rate\nTraceback", report)
    error = stderr_of("status", code=ExitCode.STUCK)
    assert "checkout: its function cannot start: ValueError: no rate" in error
    assert "once-checkout cannot start" in stderr_of("trace", "k-1", "--scope", "s")


REPLAYED = {"content-type": "application/json", "Idempotent-Replayed": "true"}
SEND = ("send", "--route", "POST /orders", "--key", 'a "key"', "--data", '{"order_id": "o-1"}')


class Api:
    """An HTTP API that keeps requests, and gives one answer to each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[AWSPreparedRequest] = []
        self.status, self.body, self.headers = 201, b'{"told": 1}', dict[str, str]()
        self.fault: Exception | None = None
        monkeypatch.setattr(URLLib3Session, "send", lambda _, request: self._answer(request))

    def _answer(self, request: AWSPreparedRequest) -> Any:
        self.requests.append(request)
        if self.fault:
            raise self.fault
        headers: Any = HeadersDict(self.headers)
        return SimpleNamespace(status_code=self.status, headers=headers, content=self.body)


@pytest.fixture
def http(door: Door, monkeypatch: pytest.MonkeyPatch) -> Api:
    return Api(monkeypatch)


def test_a_command_is_sent_with_its_key_to_the_deployed_api(http: Api) -> None:
    output = stdout_of(*SEND)
    [request] = http.requests
    assert (request.method, request.url) == ("POST", f"{URL}orders")
    assert key_in(request.headers["Idempotency-Key"]) == 'a "key"'
    assert request.body == json.dumps(ORDER).encode()
    assert "Authorization" not in request.headers
    assert "answered 201" in output
    http.headers = REPLAYED
    assert "repeated 201" in stdout_of(*SEND)
    found = json.loads(stdout_of(*SEND, "--json"))
    assert found == {
        "route": "POST /orders",
        "key": 'a "key"',
        "status": 201,
        "repeated": True,
        "body": '{"told": 1}',
    }


def test_a_command_goes_to_a_url_with_headers_and_signature(
    http: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout_of(*SEND, "--url", "https://mine.example/v1", "--header", "authorization: Bearer x")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    stdout_of(*SEND, "--sign")
    stdout_of(*SEND, "--sign", "--url", "https://abc.lambda-url.eu-west-1.on.aws")
    first, *signed = http.requests
    assert (first.url, first.headers["authorization"]) == (
        "https://mine.example/v1/orders",
        "Bearer x",
    )
    for request, name in zip(signed, ("execute-api", "lambda"), strict=True):
        assert f"/{name}/aws4_request" in str(request.headers["Authorization"])


def test_an_error_of_the_command_is_shown_and_fails(http: Api) -> None:
    http.status, http.body = 422, b'{"title": "reused"}'
    result = run(*SEND, "--json")
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (1, 422)
    assert "answered 422" in result.stderr
    http.status = 503
    assert "may be sent again with the same --key" in stderr_of(*SEND)


def test_after_a_lost_answer_the_key_to_send_again_is_named(http: Api) -> None:
    http.fault = ReadTimeoutError(endpoint_url=URL)
    error = stderr_of("send", "--route", "POST /orders", "--data", "{}")
    assert re.search(r"perhaps it took effect: send it again with --key [0-9a-f-]{36}", error)


REFUSED: dict[tuple[str, ...], str] = {
    ("--type", "order.placed"): "--type is an option of events, and --route of commands",
    ("--route", "orders"): "give a method and a path",
    ("--route", "GET /orders"): "give a method and a path",
    ("--key", "\u00e9"): "is no key: give printable ASCII",
    ("--key", " "): "is no key",
    ("--key", "k" * 513): "is no key",
    ("--data", "{'a': 1}"): "no function could read this body",
    ("--url", "ftp://x"): "is no URL of HTTP",
    ("--header", "x"): "write NAME: VALUE",
    ("--header", "x: a\nb: c"): "write NAME: VALUE",
    ("--id", "e-1"): "--id is an option of events",
}


def test_a_command_that_no_function_could_take_is_not_sent(http: Api) -> None:
    for (name, value), said in REFUSED.items():
        given = [*SEND]
        if name in given:
            at = given.index(name)
            del given[at : at + 2]
        assert said in stderr_of(*given, name, value, code=2), (name, value)
    assert http.requests == []


def test_the_api_must_be_known(cloud: Cloud, http: Api) -> None:
    assert "no commands 'refunds'" in stderr_of(*SEND, "--to", "refunds")
    del cloud.service[f"{StackOutput.COMMANDS_URL}Checkout"]
    assert "has no HTTP API of its own: give --url" in stderr_of(*SEND)
    for key in [key for key in cloud.service if key.startswith("Commands")]:
        del cloud.service[key]
    assert "has no commands: give --url" in stderr_of(*SEND)
    assert stdout_of(*SEND, "--url", URL)


def test_an_event_needs_its_type(cloud: Cloud) -> None:
    assert "give --type for an event" in stderr_of("send", "--data", "1", code=2)
    assert "--key, --url, --header and --sign are options of commands" in stderr_of(
        "send", "--type", "x", "--key", "k", "--data", "1", code=2
    )
