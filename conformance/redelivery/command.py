"""The command `redelivery`: checks a handler, lists the faults."""

import inspect
import io
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click

from redelivery.check import check as run_check
from redelivery.check import isolated
from redelivery.faults import MEANING
from redelivery.options import OPTIONS, OptionMistakes, subject_from
from redelivery.presentation import (
    EscapingConsole,
    json_text,
    print_faults,
    print_report,
    print_scenario,
)
from redelivery.report import Verdict, verdict
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
    """Run the command line and end the process with an `ExitCode`.

    Args:
        arguments: default: those of the process.
    """
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
    except OptionMistakes as error:
        lines = [f"error: {mistake}" for mistake in error.mistakes]
        _end(ExitCode.USAGE, *lines, "redelivery check --help lists the options")
    except NoVerdict as error:
        _end(ExitCode.NO_VERDICT, f"error: no verdict: {error}")
    except SubjectError as error:
        _end(ExitCode.USAGE, f"error: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = f"redelivery itself failed at {Path(place.filename).name}:{place.lineno}"
        told = f"error: no verdict: {own}: {type(error).__name__}: {error}"
        _end(ExitCode.NO_VERDICT, told)


def _end(code: ExitCode, *lines: str) -> NoReturn:
    console = EscapingConsole(sys.stderr)
    for line in lines:
        console.print(line, soft_wrap=True)
    sys.exit(code)


@click.group(help="Is your consumer idempotent? Runs an SQS handler for Lambda under faults.")
@click.version_option(version("pytest-redelivery"), message="%(prog)s %(version)s")
def app() -> None:
    """The command."""


@app.command()
def faults() -> None:
    """List the faults."""
    print_faults(MEANING, EscapingConsole(sys.stdout))


def check(handler: str, **options: Any) -> None:
    """Check a handler under duplicates, crashes and lost answers.

    HANDLER is its name as Lambda knows it, module.function; with --template the function's logical
    id, if several read a queue.

    Exit codes: 0: no fault made a difference. 1: one did. 2: the options or the handler are wrong.
    3: no verdict.
    """
    given = {name.replace("_", "-"): value for name, value in options.items()}
    subject, values = subject_from(handler, given)
    seed, replay = values["seed"] or 1, values["replay"] or ""
    if sys.stderr.isatty():  # a person sees nothing for seconds; a log has no use for it
        EscapingConsole(sys.stderr).print(f"checking {subject.handler} …")
    with isolated():
        report = run_check(
            subject, seed=seed, only=[*values["only"]], replay=replay, deep=values["deep"] or 0
        )
    console = EscapingConsole(sys.stdout)
    if replay:
        [result] = report.results
        print_scenario(result, console)
        if not result.fired:
            sys.exit(ExitCode.NO_VERDICT)
        sys.exit(ExitCode.DIFFERENCE if result.differences else ExitCode.PASSED)
    line = click.get_current_context().obj

    def repeat(scenario: str) -> str:
        return shlex.join(["redelivery", *line, "--replay", scenario, "--seed", str(seed)])

    if values["json"]:
        click.echo(json_text(report))
    else:
        print_report(report, console, repeat=repeat, every_failure=values["all"])
    sys.exit(_CODES[verdict(report)])


app.add_command(
    click.Command(
        "check",
        callback=check,
        help=inspect.cleandoc(check.__doc__ or ""),
        params=[
            click.Argument(["handler"], default=""),
            *(
                click.Option(
                    [f"--{option.name}"],
                    help=f"{option.help} Repeatable." if option.many else option.help,
                    metavar=option.form or None,
                    is_flag=None if option.form else True,
                    multiple=option.many,
                )
                for option in OPTIONS
            ),
        ],
    )
)
