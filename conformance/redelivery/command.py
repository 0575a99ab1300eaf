"""The command `redelivery`: checks a handler, and accepts its failures."""

import contextlib
import io
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click

from redelivery.accepted import FILE, accept, read_accepted, with_accepted
from redelivery.check import check as run_check
from redelivery.faults import Fault
from redelivery.formats import FORMATS
from redelivery.presentation import EscapingConsole, print_report, print_scenario, single_line
from redelivery.project import TABLE_FORM, entries, parse_toml, project, subject_named
from redelivery.report import Report, Verdict
from redelivery.subject import NoVerdict, SubjectError


class ExitCode(IntEnum):
    """Exit codes of the command."""

    PASSED = 0
    DIFFERENCE = 1
    USAGE = 2
    NO_VERDICT = 3


INTERRUPTED = 128 + signal.SIGINT
_CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.FAILED: ExitCode.DIFFERENCE,
    Verdict.NONE: ExitCode.NO_VERDICT,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default the process's, and end the process with an `ExitCode`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding may not have ✓
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(args=given, prog_name="redelivery", obj=given, standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except NoVerdict as error:
        _end(ExitCode.NO_VERDICT, f"error: no verdict: {error}")
    except SubjectError as error:
        _end(ExitCode.USAGE, f"error: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = f"redelivery itself failed at {Path(place.filename).name}:{place.lineno}"
        told = f"error: no verdict: {own}: {type(error).__name__}: {error}"
        _end(ExitCode.NO_VERDICT, told)


def _end(code: ExitCode, line: str) -> NoReturn:
    EscapingConsole(sys.stderr).print(line, soft_wrap=True)
    sys.exit(code)


@click.group(help="Is your consumer idempotent? Runs an SQS handler for Lambda under faults.")
@click.version_option(version("pytest-redelivery"), message="%(prog)s %(version)s")
def app() -> None:
    """The command."""


def _variables(_: click.Context, __: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    wrong = [text for text in texts if text.find("=") < 1]
    if wrong:
        raise click.BadParameter(f"{wrong[0]}: write NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


_FAULT = click.Choice([str(fault) for fault in Fault])
_several = partial(click.option, multiple=True)
_PARAMETERS = (
    click.argument("handler", default=""),
    click.option(
        "--template",
        type=click.Path(exists=True, dir_okay=False),
        help="SAM, CloudFormation or synthesized CDK template: the function, and what exists.",
    ),
    click.option("--subject", metavar="module:NAME", help="A Subject declared in Python."),
    _several(
        "--event",
        "events",
        metavar="FILE",
        help="File with a message's body or an SQS event; - for standard input. Repeatable.",
    ),
    click.option("--key", metavar="a.b.c", help="Field of the body that identifies an event."),
    _several("--table", "tables", metavar=TABLE_FORM, help="DynamoDB table. Repeatable."),
    _several("--queue", "queues", help="Another queue. Repeatable."),
    _several("--topic", "topics", help="SNS topic. Repeatable."),
    _several("--bucket", "buckets", help="S3 bucket. Repeatable."),
    _several(
        "--env",
        "environment",
        metavar="NAME=VALUE",
        callback=_variables,
        help="Environment variable. In a value, {queue:name}, {source} and {dlq} become queue "
        "URLs, and {topic:name} an ARN. Repeatable.",
    ),
    click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False),
        help="Folder that the function's package is made of.",
    ),
    _several(
        "--set",
        "fields",
        metavar="FIELD=VALUE",
        help="Any other field of a Subject, as TOML: timeout_seconds=15. Repeatable.",
    ),
    _several("--skip", type=_FAULT, help="Fault that does not apply."),
    _several("--only", type=_FAULT, help="Run this fault alone. Repeatable."),
    click.option(
        "--seed",
        type=click.IntRange(1),
        default=1,
        help="Draws values and interleavings; the same seed gives the same report.",
    ),
)


def _with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    return reduce(lambda made, parameter: parameter(made), reversed(_PARAMETERS), command)


@app.command()
@_with_parameters
@click.option("--replay", metavar="SCENARIO", help="Run one scenario and tell it step by step.")
@click.option("--all", "every", is_flag=True, help="Tell every failing scenario.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", *FORMATS]),
    default="text",
    help="What is printed: for people, or for programs.",
)
@click.pass_obj
def check(line: list[str], /, *, replay: str | None, every: bool, form: str, **given: Any) -> None:
    """Check a handler under duplicates, crashes and lost answers.

    HANDLER is its name as Lambda knows it, module.function, or an entry of [tool.redelivery] in
    pyproject.toml; without it, all entries are checked. With --template it is the function's
    logical id, if several read a queue.

    Exit codes: 0: no fault made a difference. 1: one did. 2: the options or the handler are wrong.
    3: no verdict.
    """
    console = EscapingConsole(sys.stdout)
    if replay:
        _replay(given, replay, console)
    reports, codes = [], []
    for name, report in _reports(given):
        if isinstance(report, SubjectError):  # of one entry of several
            EscapingConsole(sys.stderr).print(f"error: {report}", soft_wrap=True)
            is_none = isinstance(report, NoVerdict)
            codes.append(ExitCode.NO_VERDICT if is_none else ExitCode.USAGE)
            continue
        reports.append(report)
        codes.append(_CODES[report.verdict])
        if form == "text":
            named = [] if name in line or not name else [name]
            repeat = partial(_repeated, [*line, *named], report.seed)
            print_report(report, console, repeat=repeat, every_failure=every)
    if form != "text":
        click.echo(FORMATS[form](reports))
    sys.exit(max(codes))


def _repeated(line: Sequence[str], seed: int, scenario: str) -> str:
    return shlex.join(["redelivery", *line, "--replay", scenario, "--seed", str(seed)])


@app.command("accept")
@_with_parameters
@click.option("--reason", required=True, help="Why these failures are accepted.")
def accept_failures(*, reason: str, **given: Any) -> None:
    """Accept the failures of a handler: they are written to a file, and new ones fail.

    The file is redelivery-accepted.json, beside pyproject.toml. --only names the faults whose
    failures are accepted; HANDLER and the others are those of `redelivery check`.
    """
    folder, _ = project()
    for _, report in _reports(given):
        if isinstance(report, SubjectError):
            raise report
        number = accept(report, folder, reason)
        click.echo(f"{report.title}: {number} accepted in {folder / FILE}")


_OF_AN_ENTRY = (
    *("template", "subject", "events", "key", "tables", "queues", "topics", "buckets"),
    *("environment", "root", "skip"),
)
"""Parameters whose values are those of an entry of the project."""


def _values(given: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in given["fields"]:
        try:
            values |= parse_toml(text)
        except ValueError as error:
            form = "write FIELD=VALUE as TOML: timeout_seconds=15, or 'ignore=[\"orders.at\"]'"
            raise SubjectError(f"--set {text}: {error}; {form}") from error
    for name in _OF_AN_ENTRY:
        value = given[name]
        if value and isinstance(value, tuple):
            values[name] = [*values.get(name, ()), *value]
        elif value:
            values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    return values


def _reports(given: dict[str, Any]) -> Iterator[tuple[str, Report | SubjectError]]:
    """Yield the report of each subject, in which accepted failures do not count.

    Of several subjects, one that cannot be checked yields its error.
    """
    folder, _ = project()
    accepted = read_accepted(folder)
    values = _values(given)
    names = entries(given["handler"], values)
    for name in names:
        try:
            subject = subject_named(name, values)
            with _progress(subject.handler) as tell:
                report = run_check(subject, seed=given["seed"], only=[*given["only"]], tell=tell)
            yield name, with_accepted(report, accepted, folder)
        except SubjectError as error:
            if len(names) == 1:
                raise
            yield name, error


_PAUSE_SECONDS = 10


@contextlib.contextmanager
def _progress(handler: str) -> Iterator[Callable[[int], None]]:
    """Tell how many scenarios have ended: in a terminal at once, in a log now and then."""
    is_seen, last = sys.stderr.isatty(), time.monotonic()

    def tell(number: int) -> None:
        nonlocal last
        if is_seen:
            sys.stderr.write(f"\r\x1b[Kchecking {single_line(handler)}: scenario {number} …")
            sys.stderr.flush()
        elif time.monotonic() - last > _PAUSE_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"checking {single_line(handler)}: {number} scenarios have ended\n")

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K" if is_seen else "")


def _replay(given: dict[str, Any], scenario: str, console: EscapingConsole) -> NoReturn:
    values = _values(given)
    names = entries(given["handler"], values)
    if len(names) != 1:
        raise SubjectError(f"--replay is of one handler: name one of {', '.join(names)}")
    subject = subject_named(names[0], values)
    [result] = run_check(subject, seed=given["seed"], replay=scenario).results
    print_scenario(result, console)
    if not result.fired:
        sys.exit(ExitCode.NO_VERDICT)
    sys.exit(ExitCode.DIFFERENCE if result.differences else ExitCode.PASSED)
