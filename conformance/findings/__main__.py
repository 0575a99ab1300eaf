"""`python -m findings`: checks the public handlers in a folder of clones."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from findings.handlers import ALL, PublicHandler, ready
from findings.results import Outcome, document, outcome, table
from lab.stores import servers
from redelivery import SubjectError, check

WRONG_CLONE = 2
"""The exit code if a clone or a subject is wrong."""


class CloneError(Exception):
    """A clone is missing or at another commit. The message has the commands that correct it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    options = _parser().parse_args(arguments)
    handlers = [h for h in ALL if not options.only or h.name in options.only]
    if options.commands:
        sys.stdout.writelines(f"{line}\n" for line in _commands(handlers, options.clones))
        return 0
    try:
        _verify(handlers, options.clones)
        with servers({handler.server for handler in handlers} - {""}) as urls:
            found = [_checked(ready(h, urls), options.clones, options.seed) for h in handlers]
    except (CloneError, SubjectError) as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_CLONE
    results = document(found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(table(results["handlers"]))
    return 0


def _checked(handler: PublicHandler, folder: Path, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as root:
        _pack(handler, folder, Path(root))
        report = check(replace(handler.subject, root=Path(root)), seed=seed)
    sys.stderr.write(f"{handler.name}: {len(report.failures)} failures, {report.seconds:.0f} s\n")
    return outcome(handler, report)


def _commands(handlers: Iterable[PublicHandler], clones: Path) -> list[str]:
    """Return the shell commands that clone every repository at its commit."""
    wanted = dict.fromkeys((h.repository, h.clone, h.commit) for h in handlers)
    return [
        f"git clone https://github.com/{repository} {clones / clone} && "
        f"git -C {clones / clone} checkout {commit}"
        for repository, clone, commit in wanted
    ]


def _verify(handlers: Iterable[PublicHandler], clones: Path) -> None:
    """Raise CloneError unless every repository is cloned at its commit."""
    found = {h.clone: (h, _problem(h, clones)) for h in handlers}
    wrong = {clone: entry for clone, entry in found.items() if entry[1]}
    if wrong:
        problems = [f"{clone}: {problem}" for clone, (_, problem) in wrong.items()]
        remedy = _commands((handler for handler, _ in wrong.values()), clones)
        raise CloneError("\n".join([*problems, "Run:", *remedy]))


def _problem(handler: PublicHandler, clones: Path) -> str:
    folder = clones / handler.clone
    if not folder.is_dir():
        return f"no folder {folder}"
    missing = [part for part in (handler.path, *handler.package) if not (folder / part).exists()]
    head = subprocess.run(  # noqa: S603 - a fixed command
        [shutil.which("git") or "git", "-C", folder, "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    commit = head.stdout.strip() if head.returncode == 0 else ""
    if commit != handler.commit:
        return f"is at commit {commit or 'unknown'}, not {handler.commit}"
    return f"has no {', '.join(missing)}" if missing else ""


def _pack(handler: PublicHandler, clones: Path, target: Path) -> None:
    """Copy the handler's package into an empty folder, unmodified."""
    for part in handler.package:
        source = clones / handler.clone / part
        if source.is_file():
            shutil.copy(source, target)
        elif (source / "__init__.py").exists():
            shutil.copytree(source, target / source.name)
        else:
            shutil.copytree(source, target, dirs_exist_ok=True)


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
