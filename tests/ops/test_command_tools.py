"""Commands in `trace`, `status` and `send`: their records, requests and figures."""

import json
import time

import pytest

from once.events.identity import command_key, key_hash
from once.events.outgoing import event_id_of
from once.ops.errors import ExitCode
from tests.ops.checkout import FIGURES, SCOPE, SECRET, Door, some_requests
from tests.ops.support import rows, stderr_of, stdout_of
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
