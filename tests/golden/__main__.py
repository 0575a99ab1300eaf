"""`python -m tests.golden`: adds the golden data of new consumers; what is there stays as it is.

A case for every event type without one, with data of another consumer's case or of the sample in
`events/`; one for every webhook of `test_captures`; the logical ids of new queues and tables; and
the table of docs/architecture.md with what each declaration makes.
With arguments, one case with data of your own: `python -m tests.golden CONSUMER TYPE DATA`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from once.names import SCHEMA_VERSION
from tests.golden import test_captures
from tests.golden.test_consumers import known_data, missing, new_case
from tests.golden.versions import FOLDER, golden
from tests.stacks import logical_ids
from tests.stacks.cloud import Cloud

CASES = FOLDER / f"v{SCHEMA_VERSION}" / "consumers.json"
CAPTURES = CASES.with_name("captures.json")


def main(arguments: Sequence[str]) -> None:
    """Add what is missing, and print it."""
    if arguments:
        add_case(*arguments)
        return
    for consumer, event_type in list(missing()):
        add_case(consumer, event_type)
    _add_captures()
    _add_logical_ids()


def add_case(consumer: str, event_type: str, given: str | None = None) -> None:
    """Add a case for an event with the given JSON, or data that is known; it does not replace one.

    Raises:
        SystemExit: there is such a case, or the handler does not accept the data.
    """
    name, cases = f"{consumer}: {event_type}", golden(SCHEMA_VERSION, "consumers")
    if name in cases:
        sys.exit(f"{CASES} has a case {name!r}; messages of this form may be in flight")
    try:
        data = known_data(event_type) if given is None else json.loads(given)
        cases[name] = new_case(consumer, event_type, data)
    except Exception as error:
        sys.exit(
            f"{name}: no case with this data ({error!r}); give data that the handler accepts: "
            f"python -m tests.golden {consumer} {event_type} '{{…}}'"
        )
    _write(CASES, cases)
    typer.echo(f"{name}: added to {CASES}, with {json.dumps(data)}")


def _add_captures() -> None:
    kept = golden(SCHEMA_VERSION, "captures") if CAPTURES.exists() else {}
    for name in sorted(test_captures.MADE.keys() - kept.keys()):
        kept[name] = test_captures.new_case(name)
        typer.echo(f"{name}: added to {CAPTURES}")
    _write(CAPTURES, {name: kept[name] for name in sorted(kept)})


def _add_logical_ids() -> None:
    in_place: Any = {"aws:cdk:disable-asset-staging": True}  # no one reads the packages
    with TemporaryDirectory() as folder:
        found = logical_ids.found(Cloud.synthesize(Path(folder), **in_place))
    kept = logical_ids.kept()
    for stack, ids in found.items():
        for added in sorted(ids.keys() - kept[stack].keys()):
            typer.echo(f"{stack}: {added} added to {logical_ids.GOLDEN}")
        kept[stack] = dict(sorted((ids | kept[stack]).items()))
    _write(logical_ids.GOLDEN, kept)


def _write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
