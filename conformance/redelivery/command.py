"""The command `redelivery`: checks a handler, lists the faults."""

import io
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from redelivery.check import check as run_check
from redelivery.faults import MEANING
from redelivery.isolation import isolated
from redelivery.options import declarations as option
from redelivery.options.mistakes import OptionMistakes
from redelivery.options.subject import subject_from
from redelivery.presentation.document import json_text
from redelivery.presentation.escaping import EscapingConsole
from redelivery.presentation.summary import Verdict, verdict
from redelivery.presentation.terminal import print_faults, print_report, print_scenario
from redelivery.report import Report
from redelivery.subject import SubjectError


class ExitCode(IntEnum):
    """Exit codes of the command."""

    PASSED = 0
    DIFFERENCE = 1
    USAGE = 2
    NO_VERDICT = 3


_CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.FAILED: ExitCode.DIFFERENCE,
    Verdict.NONE: ExitCode.NO_VERDICT,
}

app = typer.Typer(
    help="Is your consumer idempotent? Runs an SQS handler for Lambda under faults.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with an `ExitCode`.

    Args:
        arguments: default: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _never_fail_to_encode()
    try:
        app(args=given, prog_name="redelivery", obj=given)
    except OptionMistakes as error:
        lines = [f"error: {mistake}" for mistake in error.mistakes]
        _end(ExitCode.USAGE, *lines, "redelivery check --help lists the options")
    except SubjectError as error:
        _end(ExitCode.USAGE, f"error: {error}")
    except Exception as error:
        _end(ExitCode.NO_VERDICT, f"error: {_own_failure(error)}")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"redelivery {version('pytest-redelivery')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


@app.command()
def faults() -> None:
    """List the faults."""
    print_faults(MEANING, EscapingConsole(sys.stdout))


@app.command()
def check(
    context: typer.Context,
    *,
    handler: option.Handler,
    event: option.Event,
    table: option.TableOption,
    items: option.Items,
    key: option.Key = "",
    root: option.Root = Path(),
    env: option.Env,
    timeout: option.Timeout = "",
    batch_size: option.BatchSize = 10,
    no_batch_failures: option.NoBatchFailures = False,
    keep: option.Keep,
    queue: option.Queue,
    topic: option.Topic,
    bucket: option.Bucket,
    answer: option.AnswerOption,
    fifo: option.Fifo = False,
    visibility: option.Visibility = "",
    max_receives: option.MaxReceives = 5,
    horizon: option.Horizon = "",
    ignore: option.Ignore,
    repeatable: option.Repeatable,
    skip: option.Skip,
    only: option.Only,
    seed: option.Seed = 1,
    replay: option.Replay = "",
    as_json: option.Json = False,
    every_failure: option.Every = False,
) -> None:
    """Check a handler under duplicates, crashes and lost answers.

    Exit codes: 0: no fault made a difference. 1: one did. 2: the options or the handler are wrong.
    3: no verdict.
    """
    subject = subject_from(locals())
    _announce(handler)
    with isolated():
        report = run_check(subject, seed=seed, only=only, replay=replay)
    console = EscapingConsole(sys.stdout)
    if replay:
        raise typer.Exit(_print_replay(report, console))
    if as_json:
        typer.echo(json_text(report))
    else:
        repeat = _repeat(context.obj, seed)
        print_report(report, console, repeat=repeat, every_failure=every_failure)
    raise typer.Exit(_CODES[verdict(report)])


def _announce(handler: str) -> None:
    """Tell a person why nothing is shown for seconds. A log has no use for it."""
    if sys.stderr.isatty():
        EscapingConsole(sys.stderr).print(f"checking {handler} …")


def _print_replay(report: Report, console: EscapingConsole) -> ExitCode:
    [result] = report.results
    print_scenario(result, console)
    if not result.fired:
        return ExitCode.NO_VERDICT
    return ExitCode.DIFFERENCE if result.differences else ExitCode.PASSED


def _repeat(arguments: Sequence[str], seed: int) -> Callable[[str], str]:
    """Return a function from a scenario's name to the command that repeats it."""

    def command(scenario: str) -> str:
        return shlex.join(["redelivery", *arguments, "--replay", scenario, "--seed", str(seed)])

    return command


def _end(code: ExitCode, *lines: str) -> NoReturn:
    console = EscapingConsole(sys.stderr)
    for line in lines:
        console.print(line, soft_wrap=True)
    sys.exit(code)


def _own_failure(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"no verdict: redelivery itself failed at {where}: {type(error).__name__}: {error}"


def _never_fail_to_encode() -> None:
    """Escape what the output's encoding does not have, such as ✓ in ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
