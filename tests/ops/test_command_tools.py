"""Commands in `trace`, `status`, `send` and the console: their records, requests and figures."""

import io
import json
import time
from uuid import uuid4
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from msgspec import Struct
from msgspec.structs import replace

from once import Answer, Commands, Refusal, Transaction
from once.commands.runner import CommandRuntime
from once.errors import KeyConflict
from once.events.identity import command_key, key_hash
from once.events.outgoing import event_id_of
from once.names import StackOutput
from once.runtime.metrics_log import MetricsLog
from once.settings import CommandSettings
from tests.ops.cloud import REGION, Cloud
from tests.ops.support import OK, answer_with, run, stderr_of, stdout_of, words
from tests.ops.tracing import actions, moments

URL = "https://api.example/"
SCOPE = '["claim","sub","u-1"]'
SECRET = "of u-1 alone"
ORDER = {"order_id": "o-1"}


class Order(Struct):
    """An order."""

    order_id: str
    fails: bool = False


class Taken(Refusal):
    """The id is taken."""


api = Commands("checkout")


@api.handles("place-order", Order)
def place(order: Order, tx: Transaction) -> Answer:
    if order.fails:
        raise ZeroDivisionError("a secret")
    if order.order_id == "taken":
        raise Taken
    tx.publish("order.placed", order)
    return Answer({"told": SECRET}, status=201)


@api.rejects(Taken)
def refuse(order: Order, refusal: Taken, tx: Transaction) -> None:
    """Answer without content."""


class Door:
    """A deployed function with commands: its outputs, and the log that its requests write."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        cloud.service |= {
            f"{StackOutput.COMMANDS_FUNCTION}Checkout": "once-checkout",
            f"{StackOutput.COMMANDS}Checkout": "place-order,take-back",
            f"{StackOutput.COMMANDS_URL}Checkout": URL,
        }
        for name in ("checkout", "orders", "inventory", "outbox_relay"):
            cloud.log(name)
        log = io.StringIO()
        settings = CommandSettings(
            consumer="checkout",
            dedup_table="physical-dedup",
            tables={},
            dedup_window_seconds=10**6,
            commands=("place-order",),
            publishes=("order.placed",),
        )
        runtime = replace(
            CommandRuntime.of(settings, region=REGION),
            logger=Logger(service=uuid4().hex, stream=log),
            metrics=MetricsLog(service="once-checkout", write=lambda line: log.write(f"{line}\n")),
        )
        self.log, self.runner = log, api.bound_to(runtime)

    def request(self, key: str, scope: str = SCOPE, **data: Any) -> None:
        """Send a request, and write its log."""
        deadline = self.runner.deadline(10)
        try:
            self.runner.run("place-order", data, key=key, scope=scope, deadline=deadline)
        except (KeyConflict, ZeroDivisionError):
            pass
        finally:
            self.cloud.log("checkout", *self.log.getvalue().splitlines())
            self.log.seek(0)
            self.log.truncate()


@pytest.fixture
def door(cloud: Cloud) -> Door:
    return Door(cloud)


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
