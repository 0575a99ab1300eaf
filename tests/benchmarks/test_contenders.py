"""Every contender does its work with the claimed number of requests, under the same load."""

import json
from dataclasses import replace
from io import BytesIO
from itertools import count
from operator import attrgetter
from threading import Lock
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from benchmarks import commands, contenders, effects, embedded, webhooks
from benchmarks.batches import Setting, Wrong, load_of, take
from benchmarks.contenders import Connect
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.goals import goals_of
from benchmarks.report import measured
from benchmarks.rows import Sample
from benchmarks.server import BenchServer, Service
from benchmarks.webhooks import FUNCTIONS, INGRESS, PUT, Kind

SESSION = boto3.Session("bench", "bench", region_name="us-east-1")


class MemoryServer(BenchServer):
    """Answers like the server, without its delay."""

    def __init__(self) -> None:
        self.service = Service()
        self._one_at_a_time = Lock()

    def client(self, service: str, config: Config | None = None) -> Any:
        client = SESSION.client(service, config=config)
        client.meta.events.register_first(f"before-send.{service}", self._send)
        return client

    def __getattr__(self, method: str) -> Any:
        return getattr(self.service, method)

    def _send(self, request: Any, **_: Any) -> Any:
        target = request.headers["X-Amz-Target"].decode()
        with self._one_at_a_time:
            answer = self.service.respond(target, request.body)
        head, body = answer[1].split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(body))


class _Raw(BytesIO):
    """A response body in the form that botocore reads."""

    def stream(self, **_: Any) -> Any:
        yield self.read()


CLEAN = Setting(records=10, delay_ms=0, messages=20)
BY_NAME = {contender.name: contender for contender in contenders.CONTENDERS}
COSTS = {  # requests and write units of a message without faults
    "plain put": (1, 1),
    "claim, then put": (2, 2),
    "Powertools": (3, 3),
    "raw transaction": (1, 4),
    "raw, default client": (1, 4),
    "Once": (1, 4),
    "Once, grouped": (0.1, 4),
    "Once, 4 threads": (0.1, 4),
    "Once, item": (1, 1),
    "Once, item, grouped": (0.1, 2),
}


def sample(contender: contenders.Contender, setting: Setting = CLEAN) -> Sample:
    return take(MemoryServer(), setting, contender, seed=3)


@pytest.mark.parametrize("contender", contenders.CONTENDERS, ids=attrgetter("name"))
def test_a_contender_has_its_costs_without_faults(contender: contenders.Contender) -> None:
    requests, units = COSTS[contender.name]
    seen = dict(sample(contender))
    assert seen.pop("wall_us") > 0
    assert seen.pop("cpu_us") > 0
    both = {"write_units": units, "write_units_least": units}
    assert seen == {"requests": requests, "read_units": 0, **both}


@pytest.mark.parametrize(
    "contender", [c for c in contenders.CONTENDERS if c.exactly_once], ids=attrgetter("name")
)
def test_faults_neither_lose_nor_double_an_order(
    contender: contenders.Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.batches.LEARNING", 20)
    faulty = replace(CLEAN, duplicates=0.2, conflicts=0.05, redelivered=True)
    sample(contender, faulty)  # raises if the tables are wrong


def losing(connect: contenders.Connect) -> contenders.Handle:
    """Raw, but it acknowledges one order without storing it."""
    handle = BY_NAME[contenders.RAW].prepare(connect)
    return lambda event, context: handle({"Records": event["Records"][1:]}, context)


def failing(connect: contenders.Connect) -> contenders.Handle:
    """Raw, but it reports a committed message as failed."""
    handle = BY_NAME[contenders.RAW].prepare(connect)

    def fail(event: Any, context: Any) -> Any:
        handle(event, context)
        return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}

    return fail


BROKEN = {
    "lost order": (contenders.Contender("broken", losing, requests=1), "never put: order-00000000"),
    "doubled order": (
        contenders.Contender("broken", BY_NAME["plain put"].prepare, requests=1),
        "put more than once: order-00000000",
    ),
    "failed message": (
        contenders.Contender("broken", failing, requests=1),
        "reported as failed: message-of-order-00000000",
    ),
    "too many requests": (
        replace(BY_NAME[contenders.RAW], requests=0.1),
        r"raw transaction, 10 records, 0 ms: 20 requests, .* need 2",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_contender_is_detected(fault: str) -> None:
    contender, message = BROKEN[fault]
    duplicates = 1.0 if fault == "doubled order" else 0.0
    with pytest.raises(Wrong, match=message):
        sample(contender, replace(CLEAN, duplicates=duplicates))


def test_a_load_depends_on_its_seed_and_has_its_share_of_duplicates() -> None:
    setting = replace(CLEAN, duplicates=0.1, messages=50)
    loads = [load_of(setting, BY_NAME[contenders.RAW], seed) for seed in (1, 1, 2)]
    assert loads[0] == loads[1] != loads[2]
    before = {record["messageId"] for e in loads[0].before for record in e["Records"]}
    sent = [record["messageId"] for e in loads[0].measured for record in e["Records"]]
    assert len(sent) == loads[0].messages == 50
    assert sum(message in before for message in sent) == 5


# Contenders with effects, and kinds of models.


REQUESTS = {
    "Once": 0.2,
    "Once, async": 0.2,
    "Once, one a batch": 2,
    "Powertools": 3,
    "Powertools, async": 3,
    "raw, 10 threads": 1,
}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "once.effects.concurrent_calls._LEAST_PATIENCE", 10
    )  # a busy machine is slow


def test_every_contender_charges_and_stores_each_order_once() -> None:
    rows = list(effects.effect_rows(MemoryServer(), 5, repeats=1, messages=10))
    assert {row["contender"]: row["requests_per_message"] for row in rows} == REQUESTS
    assert {row["kind"] for row in rows} == {"effects"}
    assert [r["vs_sequential"] for r in rows if r["records"] == 1] == [1]


@pytest.mark.parametrize("fault", ["under two keys", "never"])
def test_a_charge_that_is_not_made_once_is_detected(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(effects.Provider):
        def charge(self, key: str, order: str) -> str:
            if fault == "under two keys":
                super().charge(f"{key} again", order)
                return super().charge(key, order)
            return ""

    monkeypatch.setattr(effects, "Provider", Faulty)
    with pytest.raises(Wrong, match="Once, calls of 5 ms: 0 failed, 20 orders and"):
        effects.take(MemoryServer(), effects.ONCE, 5, messages=10)


# The end-to-end measurement without an embedded AWS, and the two webhook functions.


def test_a_missing_order_makes_the_measurement_invalid() -> None:
    pages = [{"Count": 10}, {"Count": 9}]
    scan = SimpleNamespace(paginate=lambda **_: pages)
    dynamodb = SimpleNamespace(get_paginator=lambda _: scan)
    with pytest.raises(Wrong, match="raw, embedded: 20 orders were sent, 19 are stored"):
        embedded.check_stored(dynamodb, "raw", "orders", 20, "orders")


WEBHOOK_COSTS = {  # requests and write units of one webhook of 2 KB
    (PUT, Kind.GENUINE): (1, 3),
    (PUT, Kind.DUPLICATE): (1, 3),
    (PUT, Kind.FORGED): (0, 0),
    (INGRESS, Kind.GENUINE): (1, 14),
    (INGRESS, Kind.DUPLICATE): (1, 14),
    (INGRESS, Kind.FORGED): (0, 0),
}


def test_both_functions_answer_the_same_requests_at_their_costs() -> None:
    found = webhooks.measure(MemoryServer(), 0, pairs=4)
    assert {
        (row["contender"], row["request"]): (row["requests"], row["write_units"]) for row in found
    } == WEBHOOK_COSTS
    assert {row["repeats"] for row in found} == {4}


def test_a_deployed_function_gets_the_webhooks_that_must_be_stored() -> None:
    server = MemoryServer()
    webhooks.samples_of({PUT: FUNCTIONS[PUT](server.client)}, pairs=4)
    assert len(server.seen().captures) == webhooks.WARM + 4


def accepting(connect: Connect) -> Handle:
    """Answer everything, and store nothing."""
    return lambda *_: {"statusCode": 200}


def capturing_again(connect: Connect) -> Handle:
    """The plain function, but it stores duplicates as well."""
    client = connect("dynamodb")

    class Unconditional:
        def put_item(self, *, ConditionExpression: str, **put: Any) -> Any:  # noqa: N803
            return client.put_item(**put)

    return FUNCTIONS[PUT](lambda _: Unconditional())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (accepting, "a forged webhook was answered with 200 instead of 401"),
        (capturing_again, r"48 captures were expected; 48 were put, \d+ times"),
    ],
)
def test_a_broken_function_is_detected(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "FUNCTIONS", {**FUNCTIONS, PUT: broken})
    with pytest.raises(Wrong, match=message):
        webhooks.measure(MemoryServer(), 0, pairs=4)


# Commands.


COMMAND_COSTS = {  # requests and write units, a cancelled transaction's included
    ("raw transaction", "new"): (1, 4),
    ("Powertools", "new"): (3, 3),
    ("Once, command", "new"): (1, 4),
    ("raw transaction", "repeated"): (1, 4),
    ("Powertools", "repeated"): (1, 1),
    ("Once, command", "repeated"): (1, 4),
}


def test_every_function_answers_the_same_commands_at_its_costs() -> None:
    rows = commands.measure(MemoryServer(), 5, pairs=4)
    assert {
        (row["contender"], row["sent"]): (row["requests"], row["write_units"]) for row in rows
    } == COMMAND_COSTS
    goals = [goal for goal in goals_of(rows, []) if "command, requests" in goal.figure]
    assert [goal.seen for goal in goals] == [1, 1]
    assert sum("Once, command" in line for line in measured(rows, [], goals)) == 2


def answering_anew(connect: Connect) -> Handle:
    """Store each order once, but answer each request differently."""
    handle, number = commands._once(connect), count()
    return lambda *given: {**handle(*given), "body": str(next(number))}


def storing_again(connect: Connect) -> Handle:
    """Answer each request alike, and store its order each time."""
    client = connect("dynamodb")

    def handle(event: Any, _: Any) -> Any:
        key = {"order_id": {"S": json.loads(event["body"])["order_id"]}}
        client.put_item(TableName="orders", Item=key)
        return {"statusCode": 201, "body": "{}"}

    return handle


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (answering_anew, "Once, command: a repeated request had another answer, with 201"),
        (storing_again, r"24 orders were expected; 24 were put, \d+ times"),
    ],
)
def test_a_broken_command_is_detected(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = {**commands.FUNCTIONS, commands.ONCE: broken}
    monkeypatch.setattr(commands, "FUNCTIONS", functions)
    with pytest.raises(Wrong, match=message):
        commands.measure(MemoryServer(), 0, pairs=4)
