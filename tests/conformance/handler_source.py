"""Handlers written for one test: their source, and their subject."""

from pathlib import Path
from textwrap import dedent
from typing import Any

from redelivery import Subject, Table
from redelivery.examination import examine
from redelivery.report import Result

ORDER = {"order_id": "o-1", "amount": 5}


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
