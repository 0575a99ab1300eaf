"""The files of the library that a reader opens to follow three flows; `make walk` tells them.

- `order`: a warm invocation of the shop's `orders` function commits one good order;
- `redrive`: `once dlq redrive MESSAGE_ID` sends one dead letter back, in a process that has found
  the deployment before;
- `webhook`: a warm webhook ingress takes one signed push of GitHub, and hands it on.

Each is traced on an AWS in memory. `python -m tests.architecture.test_walk` writes three figures of
each to `reports/walk.json`:

- `modules`: files of `once/` that are entered;
- `moves`: a call into, or a return to, another file of `once/` than the one before counts as one;
- `calls`: calls of functions in `once/`. A resumed generator counts as another call; a
  comprehension is not counted.

Code outside of `once/` is skipped: a call that passes through it, such as a handler, counts as
if it were made directly. `once/testing/`, which replaces AWS here, and `terminal.py` and
`progress.py` of `once/ops/`, which print, count as outside. Other threads, such as the one that
renews the hold of a dead letter, are not followed.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

import once
from benchmarks.dynamodb import CAPTURES, DEDUP, KEYS
from benchmarks.orders import EVENT_TYPE, body, lambda_event
from benchmarks.webhooks import ingress_of, url_event
from functions.orders.handler import consumer
from once.events.identity import Key
from once.names import RELAY
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.dead_letters.commands import app
from once.runtime.sdk import SDK
from once.testing import FakeAws, FakeContext, inject, refused
from once.webhooks.endpoint import GITHUB, Endpoint
from once.webhooks.signature import sign

ROOT = Path(once.__file__).parents[1]
REPORT = ROOT / "reports" / "walk.json"

_REGION = "us-east-1"
_SECRET = "whsec_walk"

_LIBRARY = f"{ROOT / 'once'}/"
_OUTSIDE = (f"{_LIBRARY}testing/", f"{_LIBRARY}ops/terminal.py", f"{_LIBRARY}ops/progress.py")
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@dataclass(slots=True)
class Walk:
    """The files of the library in the order in which they were entered or returned to.

    Attributes:
        files: the first file, and then the file of each move.
        calls: the functions that were called, each as its file and its name.
    """

    files: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, int]:
        """The length of the walk so far; the module's docstring defines each figure."""
        moves = max(0, len(self.files) - 1)
        return {"modules": len(set(self.files)), "moves": moves, "calls": len(self.calls)}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return; a profile function for `sys.setprofile`."""
        entered = frame if event == "call" else frame.f_back if event == "return" else None
        if entered is None:
            return
        code = entered.f_code
        if not code.co_filename.startswith(_LIBRARY) or code.co_filename.startswith(_OUTSIDE):
            return
        file = code.co_filename.removeprefix(_LIBRARY)
        if self.files[-1:] != [file]:
            self.files.append(file)
        if event == "call" and code.co_name not in _COMPREHENSIONS:
            self.calls.append((file, code.co_qualname))


def walk_of(work: Callable[[], object]) -> Walk:
    """Return the walk of a call, on this thread."""
    walk = Walk()
    before = sys.getprofile()
    sys.setprofile(walk.note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return walk


def walk_of_an_order() -> Walk:
    """Return the walk of one good order in the second invocation of a function."""
    with _orders() as aws:
        handle = consumer.bound_to(aws.runtime)
        handle(lambda_event([1]), FakeContext())
        order, answers = lambda_event([2]), []
        walk = walk_of(lambda: answers.append(handle(order, FakeContext())))
    if answers != [{"batchItemFailures": []}]:
        raise AssertionError(f"the order did not commit: {answers}")
    return walk


def walk_of_a_redrive() -> Walk:
    """Return the walk of the second `once dlq redrive`, of the only dead letter there is."""
    with (
        patch.dict(os.environ, AWS_REGION=_REGION),
        _orders() as aws,
        patch.object(Deployment, "find", return_value=_deployment(aws)),
    ):
        _redrive(_dead_letter(aws, 1))
        second = _dead_letter(aws, 2)
        return walk_of(lambda: _redrive(second))


def walk_of_a_webhook() -> Walk:
    """Return the walk of one signed push of GitHub in the second invocation of an ingress."""
    with redirect_stdout(StringIO()), mock_aws():
        handle = _ingress()
        handle(_push(1), FakeContext())
        push, answers = _push(2), []
        walk = walk_of(lambda: answers.append(handle(push, FakeContext())))
        captured = boto3.client("dynamodb", _REGION).scan(TableName=CAPTURES)["Items"]
    if [answer["statusCode"] for answer in answers] != [200] or len(captured) != 2:
        raise AssertionError(f"the webhook was not captured: {answers}")
    return walk


MOST_MODULES = {"order": 14, "redrive": 14, "webhook": 13}
MOST_MOVES = {"order": 40, "redrive": 178, "webhook": 82}
"""The goals: a reader can follow each flow through the library."""

FLOWS = {"order": walk_of_an_order, "redrive": walk_of_a_redrive, "webhook": walk_of_a_webhook}


@contextmanager
def _orders() -> Iterator[FakeAws]:
    """Yield the AWS of the shop's `orders` function, which logs nothing."""
    tables = {"orders": "order_id", "customers": "customer_id"}
    with redirect_stdout(StringIO()), FakeAws(consumer, tables) as aws:
        yield aws


def _deployment(aws: FakeAws) -> Deployment:
    """Return the deployment that has the queues of the function."""
    boto3.client("logs", _REGION).create_log_group(logGroupName="operator-log")
    orders = DeployedConsumer(
        name="orders",
        queue_url=aws.queue,
        dead_letter_url=aws.dead_letter_queue,
        function_name="once-orders",
        identity="orders",
        external=(EVENT_TYPE,),
        keys={EVENT_TYPE: Key.event()},
    )
    return Deployment(
        service="once",
        ingress_topic_arn="ingress",
        events_topic_arn="events",
        relay_function_name=f"once-{RELAY}",
        relay_dead_letter_url=aws.sqs.create_queue(QueueName="relay")["QueueUrl"],
        unrouted_queue_url=aws.sqs.create_queue(QueueName="unrouted")["QueueUrl"],
        sweep_queue_url=aws.sqs.create_queue(QueueName="sweep")["QueueUrl"],
        dedup_table="dedup",
        operator_log="operator-log",
        tables={},
        consumers={orders.name: orders},
    )


def _dead_letter(aws: FakeAws, number: int) -> str:
    """Let the function dead-letter an order on its last receive; return its id."""
    fault = refused("AccessDeniedException")
    with inject(aws.runtime.dynamodb, "TransactWriteItems", fault):
        # An order from before the dedup window would be no safe redrive.
        order = {**json.loads(body(number)), "time": datetime.now(UTC).isoformat()}
        aws.deliver(order, receive_count=5, fails=True)
    box = aws.dead_letter_queue
    [message] = aws.sqs.receive_message(QueueUrl=box, VisibilityTimeout=0)["Messages"]
    return str(message["MessageId"])


def _redrive(message_id: str) -> None:
    # With a higher limit, other threads receive the messages, and are not followed.
    result = CliRunner().invoke(app, ["redrive", message_id, "--limit", "1", "--yes"])
    if result.exit_code:
        raise AssertionError(
            f"the dead letter was not sent back: {result.output}"
        ) from result.exception


def _ingress() -> Callable[[dict[str, Any], Any], Any]:
    """Return an ingress for pushes of GitHub, with its tables and its secret."""
    dynamodb = boto3.client("dynamodb", _REGION, config=SDK)
    for table in (DEDUP, CAPTURES):
        dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": KEYS[table], "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": KEYS[table], "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    secrets = boto3.client("secretsmanager", _REGION)
    secrets.create_secret(Name="github", SecretString=_SECRET)
    return ingress_of(Endpoint("github", GITHUB, types=("push",)), dynamodb, secrets)


def _push(number: int) -> dict[str, Any]:
    """Return the signed push of GitHub, as a function URL passes it on."""
    text = json.dumps({"ref": "refs/heads/main", "after": f"{number:040x}", "commits": []})
    delivery = f"delivery-{number}"
    signed = sign(GITHUB, _SECRET, text.encode(), webhook_id=delivery, now=time.time())
    headers = {"content-type": "application/json", "x-github-event": "push", **signed}
    return url_event("/github", headers, text)


@cache
def walk_of_flow(flow: str) -> Walk:
    return FLOWS[flow]()


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_passes_through_few_files(flow: str) -> None:
    figures = walk_of_flow(flow).figures
    assert 1 < figures["modules"] <= MOST_MODULES[flow]
    assert 0 < figures["moves"] <= MOST_MOVES[flow]


@pytest.mark.parametrize(
    ("flow", "entered"),
    [
        ("order", {"intake/reader.py", "transaction.py", "commit/committer.py"}),
        ("redrive", {"ops/dead_letters/search.py", "ops/operator_log.py"}),
        ("webhook", {"webhooks/signature.py", "webhooks/capture.py", "commit/committer.py"}),
    ],
)
def test_a_flow_enters_the_files_that_do_its_work(flow: str, entered: set[str]) -> None:
    assert entered <= set(walk_of_flow(flow).files)


if __name__ == "__main__":
    found = {flow: walk_of_flow(flow).figures for flow in FLOWS}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(found, indent=2) + "\n")
    for name, figures in found.items():
        shown = ", ".join(f"{what} {number}" for what, number in figures.items())
        sys.stdout.write(f"{name}: {shown}\n")
