"""Handlers written for one test, and reports made by hand."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from redelivery import Difference, Fault, Kind, Report, Result, Subject, Table
from redelivery.examination import examine

KIT = Path(__file__).parents[1]
"""The folder of the distribution."""

ORDER = {"order_id": "o-1", "amount": 5}


PATIENCE_SECONDS = 300
"""Time for what takes a few seconds on an idle machine."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a state of other processes."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def subject(folder: Path, source: str, **more: Any) -> Subject:
    """Write a handler of an orders table, and return its subject."""
    folder.joinpath("app.py").write_text(dedent(source))
    given = {"events": [ORDER], "tables": [Table("orders", "order_id")], "key": "order_id"}
    return Subject(handler="app.handler", root=folder, **{**given, **more})


def results(folder: Path, source: str, *faults: str, **more: Any) -> dict[str, Result]:
    """Return the results of some faults by scenario."""
    found = examine(subject(folder, source, **more), only=faults).results
    return {result.scenario: result for result in found}


def kinds(result: Result) -> list[str]:
    """Return the kinds of a result's differences."""
    return [str(difference.kind) for difference in result.differences]


# Reports made by hand, for the tests of what is shown of them.


DOUBLED = Difference(
    Kind.DOUBLED, "orders order_id=o-1", 2, "app.py:12", "expected total 5, found 10"
)
LOST = Difference(Kind.LOST, "message to mails", 1, "app.py:14")

CLEAN_COURSE = ("SQS delivers message 1.", "PutItem on orders (app.py:12).", "SQS deletes it.")


def result(scenario: str, *differences: Difference, steps: int = 3, **more: Any) -> Result:
    """Return a result whose course has a number of steps."""
    fault = Fault(scenario.partition("@")[0])
    course = tuple(f"Step {number} of {scenario}." for number in range(1, steps + 1))
    return Result(scenario, fault, more.pop("fired", True), differences, course, **more)


PASSED = Report(
    handler="app.handler",
    seed=7,
    results=(
        result("dies-before@1.1", site="app.py:12"),
        result("dies-before@1.2", site="app.py:14", fired=False),
        result("redriven@1", remarks=("the handler reads the clock",)),
    ),
    course=CLEAN_COURSE,
    ignored={"orders.stored_at": "differs between two clean runs"},
    not_run={Fault.CONFLICTED: "the handler writes nothing to DynamoDB"},
    seconds=12.34,
)

FAILED = replace(
    PASSED,
    results=(
        *PASSED.results,
        result("dies-after@1.1", DOUBLED, LOST, steps=9, site="app.py:12"),
        result("dies-after@1.2", DOUBLED, steps=4, site="app.py:14"),
        result("poison@1", fired=False),
    ),
)

IDLE = replace(PASSED, results=(result("dies-before@1.1", fired=False),))


def of_scenario(report: Report, scenario: str) -> Report:
    """Return the report of a replay."""
    return replace(report, results=tuple(r for r in report.results if r.scenario == scenario))
