"""`once webhooks listen`: each new webhook reaches the local port once, in order."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from once.ops.webhooks import replay
from once.ops.webhooks._http import NoResponse, NotSent
from tests.ops.support import answer_with, run, stderr_of
from tests.ops.webhooks.ingress import Receiver, Webhooks, stripe

Steps = Callable[..., None]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Let these functions run while the command waits, one a time; then Ctrl-C."""

    def set_steps(*given: Callable[[], object]) -> None:
        left = iter(given)

        def wait(seconds: float) -> None:
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(time, "sleep", wait)

    return set_steps


def listen(*options: object) -> Any:
    result = run("webhooks", "listen", *options)
    assert result.exit_code == 0, result.output
    return result


def ids(server: Receiver) -> list[str]:
    return [json.loads(request.body)["id"] for request in server.requests]


def test_each_new_webhook_is_forwarded_once(
    webhooks: Webhooks, server: Receiver, steps: Steps
) -> None:
    webhooks.age = 30
    webhooks.receive(stripe("before"))

    def receive(webhook_id: str, age: float) -> Callable[[], object]:
        def step() -> None:
            webhooks.age = age
            webhooks.receive(stripe(webhook_id, text="ä"))

        return step

    def both() -> None:
        receive("evt_2", 1)()
        receive("evt_1", 2)()

    nothing = webhooks.captures
    late = receive("late", 60)  # by a slow clock
    steps(nothing, both, nothing, receive("evt_3", 0), late, nothing, nothing)
    result = listen("--to", f"{server.url}/hook")
    assert ids(server) == ["evt_1", "evt_2", "evt_3", "late"]
    assert {each.path for each in server.requests} == {"/hook"}
    assert server.requests[0].body == stripe("evt_1", text="ä")
    assert server.requests[0].headers["stripe-signature"].startswith("t=")
    lines = result.stdout.splitlines()
    assert [line.split()[-2:] for line in lines][:2] == [["evt_1", "200"], ["evt_2", "200"]]
    assert "ended: 4 webhooks forwarded" in result.stderr
    assert webhooks.cloud.logged() == []


def test_since_forwards_earlier_ones_that_match(
    webhooks: Webhooks, server: Receiver, steps: Steps
) -> None:
    for age, webhook_id in ((7200, "older"), (3000, "evt_1"), (1000, "evt_2"), (100, "evt_3")):
        webhooks.age = age
        webhooks.receive(
            stripe(webhook_id, "other" if webhook_id == "evt_2" else "charge.refunded")
        )
    steps(webhooks.captures)
    listen("--to", server.url, "--since", "1h", "--type", "charge.refunded")
    assert ids(server) == ["evt_1", "evt_3"]


def test_it_waits_for_the_port_and_repeats_nothing_that_may_have_arrived(
    webhooks: Webhooks, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    answers: list[Exception | int] = [NotSent("refused"), NotSent("refused"), NoResponse("gone")]

    def send(destination: Any, method: str, headers: Any, body: bytes) -> int:
        tried.append(json.loads(body)["id"])
        found = answers.pop(0) if answers else 503
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(replay, "send_request", send)
    for webhook_id in ("evt_1", "evt_2"):
        webhooks.receive(stripe(webhook_id))
    steps(*[webhooks.captures] * 4)
    result = listen("--to", "http://localhost:1/", "--since", "1h", "--json")
    assert tried == ["evt_1", "evt_1", "evt_1", "evt_2"]
    assert [json.loads(line)["answer"] for line in result.stdout.splitlines()] == ["gone", "503"]
    assert result.stderr.count("waiting: refused") == 1


def test_a_lost_connection_to_aws_loses_no_webhook(
    webhooks: Webhooks, server: Receiver, steps: Steps
) -> None:
    def lose(params: Any) -> Any:
        if len(lost) < 2:
            lost.append(1)
            raise EndpointConnectionError(endpoint_url="dynamodb")

    lost: list[int] = []
    webhooks.receive(stripe("evt_1"))
    answer_with("dynamodb.Query", lose)
    steps(*[webhooks.captures] * 4)
    result = listen("--to", server.url, "--since", "1h")
    assert ids(server) == ["evt_1"]
    assert "no look at the captures" in result.stderr


def test_what_cannot_be_forwarded_is_told(
    webhooks: Webhooks, server: Receiver, steps: Steps
) -> None:
    webhooks.put(b"a", headers={"x-a": "1\r\nx-b: \x1b[31m"})
    webhooks.put(b"b", body_object="webhooks/stripe/gone", body=None)
    steps()
    output = listen("--to", server.url, "--since", "1h").output
    assert server.requests == []
    assert "the request cannot be sent as it is" in output
    assert "not forwarded: its body is gone" in output
    assert "\x1b" not in output


def test_only_this_machine_is_forwarded_to(webhooks: Webhooks) -> None:
    for url in ("https://93.184.216.34/", "http://10.0.0.1/", "http://0.0.0.0/"):
        assert "which is not this machine" in stderr_of("webhooks", "listen", "--to", url)
