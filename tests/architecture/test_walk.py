"""The files of the library that a reader opens to follow three flows; `make walk` tells them.

- `order`: a warm invocation of the shop's `orders` function commits one good order;
- `redrive`: `once dlq redrive MESSAGE_ID` sends one dead letter back, in a process that has found
  the deployment before;
- `webhook`: a warm webhook ingress takes one signed push of GitHub, and hands it on.

Each is traced on an AWS in memory. `python -m tests.architecture.test_walk` writes two figures of
each to `reports/walk.json`:

- `modules`: files of `once/` that are entered;
- `moves`: a call into, or a return to, another file of `once/` than the one before counts as one.

Code outside of `once/` is skipped: a call that passes through it, such as a handler, counts as
if it were made directly. `once/testing/`, which replaces AWS here, and `terminal.py` and
`progress.py` of `once/ops/`, which print, count as outside. Other threads, such as the one that
renews the hold of a dead letter, are not followed.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import pytest
from moto import mock_aws
from typer.testing import CliRunner

import once
from benchmarks.orders import lambda_event
from functions.orders.handler import consumer
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.commands import app
from once.testing import FakeAws, FakeContext
from tests.once.webhooks.service import Service, github_request
from tests.ops.cloud import REGION, Cloud
from tests.ops.shop import Shop

ROOT = Path(once.__file__).parents[1]
REPORT = ROOT / "reports" / "walk.json"

_LIBRARY = f"{ROOT / 'once'}/"
_OUTSIDE = (f"{_LIBRARY}testing/", f"{_LIBRARY}ops/terminal.py", f"{_LIBRARY}ops/progress.py")


def walk_of(work: Callable[[], object]) -> list[str]:
    """Return the files that a call enters or returns to on this thread, one for each move."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        entered = frame if event == "call" else frame.f_back if event == "return" else None
        if entered is None:
            return
        file = entered.f_code.co_filename
        if file.startswith(_LIBRARY) and not file.startswith(_OUTSIDE):
            name = file.removeprefix(_LIBRARY)
            if files[-1:] != [name]:
                files.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return files


def walk_of_an_order() -> list[str]:
    """Return the walk of one good order in the second invocation of a function."""
    tables = {"orders": "order_id", "customers": "customer_id"}
    with FakeAws(consumer, tables) as aws:
        handle = consumer.bound_to(aws.runtime)
        handle(lambda_event([1]), FakeContext())
        order, answers = lambda_event([2]), []
        walk = walk_of(lambda: answers.append(handle(order, FakeContext())))
        assert answers == [{"batchItemFailures": []}]
    return walk


def walk_of_a_redrive() -> list[str]:
    """Return the walk of the second `once dlq redrive`, of the only dead letter there is."""
    region = {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    with patch.dict(os.environ, region), mock_aws(), Shop(Cloud()) as shop:
        found = Deployment.of("once", shop.cloud.state | shop.cloud.service)
        with patch.object(Deployment, "find", return_value=found):
            shop.fail("a")
            assert shop.redrive("--limit", 1).exit_code == 0
            assert len(shop.waiting()) == 1
            shop.fail("b")
            message_id = shop.only_dead_letter().message_id
            # With a higher limit, other threads receive the messages, and are not followed.
            redrive = ("redrive", message_id, "--yes", "--limit", "1")
            walk = walk_of(lambda: CliRunner().invoke(app, redrive))
            assert len(shop.waiting()) == 1
    return walk


def walk_of_a_webhook() -> list[str]:
    """Return the walk of one signed push of GitHub in the second invocation of an ingress."""
    with mock_aws():
        service = Service()
        assert service.post(github_request(b'{"push": 1}', delivery="1")) == 200
        push = github_request(b'{"push": 2}', delivery="2")
        walk = walk_of(lambda: service.post(push))
        assert len(service.captures()) == 2
    return walk


MOST_MODULES = {"order": 14, "redrive": 14, "webhook": 13}
MOST_MOVES = {"order": 40, "redrive": 178, "webhook": 82}
"""The goals: a reader can follow each flow through the library."""

FLOWS = {"order": walk_of_an_order, "redrive": walk_of_a_redrive, "webhook": walk_of_a_webhook}


@cache
def walk_of_flow(flow: str) -> list[str]:
    with redirect_stdout(StringIO()):  # the functions log
        return FLOWS[flow]()


def figures(flow: str) -> dict[str, int]:
    files = walk_of_flow(flow)
    return {"modules": len(set(files)), "moves": len(files) - 1}


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_passes_through_few_files(flow: str) -> None:
    found = figures(flow)
    assert 1 < found["modules"] <= MOST_MODULES[flow]
    assert 0 < found["moves"] <= MOST_MOVES[flow]


@pytest.mark.parametrize(
    ("flow", "entered"),
    [
        ("order", {"intake/reader.py", "transaction.py", "commit/committer.py"}),
        ("redrive", {"ops/dead_letters/search.py", "ops/operator_log.py"}),
        ("webhook", {"webhooks/signature.py", "webhooks/capture.py", "commit/committer.py"}),
    ],
)
def test_a_flow_enters_the_files_that_do_its_work(flow: str, entered: set[str]) -> None:
    assert entered <= set(walk_of_flow(flow))


if __name__ == "__main__":
    report = {flow: figures(flow) for flow in FLOWS}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    for name, found in report.items():
        shown = ", ".join(f"{what} {number}" for what, number in found.items())
        sys.stdout.write(f"{name}: {shown}\n")
