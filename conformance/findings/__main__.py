"""`python -m findings`: checks the public handlers in a folder of clones."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from findings import clones
from findings.handlers import ALL, PublicHandler
from findings.results import Outcome, document, outcome, table
from redelivery import SubjectError, check

WRONG_CLONE = 2
"""The exit code if a clone or a subject is wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    options = _parser().parse_args(arguments)
    handlers = [h for h in ALL if not options.only or h.name in options.only]
    if options.commands:
        sys.stdout.writelines(f"{line}\n" for line in clones.commands(handlers, options.clones))
        return 0
    try:
        clones.verify(handlers, options.clones)
        found = [_checked(handler, options.clones, options.seed) for handler in handlers]
    except (clones.CloneError, SubjectError) as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_CLONE
    results = document(found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(table(results["handlers"]))
    return 0


def _checked(handler: PublicHandler, folder: Path, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as root:
        clones.pack(handler, folder, Path(root))
        report = check(replace(handler.subject, root=Path(root)), seed=seed)
    sys.stderr.write(f"{handler.name}: {len(report.failures)} failures, {report.seconds:.0f} s\n")
    return outcome(handler, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m findings", description=__doc__)
    add = parser.add_argument
    add("--clones", type=Path, required=True, help="the folder with the clones")
    add("--commands", action="store_true", help="print the commands that make the clones")
    add("--only", action="append", choices=[h.name for h in ALL], help="check this handler")
    add("--json", type=Path, help="write the results to this file")
    add("--seed", type=int, default=1)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
