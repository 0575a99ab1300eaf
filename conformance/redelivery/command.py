"""The command `redelivery`: checks a handler, lists the faults."""

import io
import shlex
import sys
import traceback
from collections.abc import Sequence
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from redelivery.check import check as run_check
from redelivery.check import isolated
from redelivery.faults import MEANING
from redelivery.options import ANSWER_FORM, TABLE_FORM, OptionMistakes, subject_from
from redelivery.presentation import (
    EscapingConsole,
    json_text,
    print_faults,
    print_report,
    print_scenario,
)
from redelivery.report import Verdict, verdict
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
_SAMPLES, _FUNCTION, _WORLD = "Messages", "Function", "What exists"
_SCENARIOS, _OUTPUT = "Scenarios", "Output"

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding may not have ✓
            stream.reconfigure(errors="backslashreplace")
    try:
        app(args=given, prog_name="redelivery", obj=given)
    except OptionMistakes as error:
        lines = [f"error: {mistake}" for mistake in error.mistakes]
        _end(ExitCode.USAGE, *lines, "redelivery check --help lists the options")
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


def _one(name: str, panel: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel=panel, metavar=metavar)


def _many(name: str, panel: str, text: str, metavar: str) -> Any:
    return typer.Option(
        f"--{name}",
        help=f"{text} Repeatable.",
        rich_help_panel=panel,
        metavar=metavar,
        default_factory=list,
        show_default=False,
    )


def _count(panel: str, text: str) -> Any:
    return typer.Option(min=1, help=text, rich_help_panel=panel, metavar="N")


@app.command()
def check(
    context: typer.Context,
    *,
    handler: Annotated[
        str, typer.Argument(help="The handler as Lambda names it: module.function.")
    ],
    event: Annotated[
        list[str],
        _many(
            "event",
            _SAMPLES,
            "File with a message's body or an SQS event; - for standard input.",
            "FILE",
        ),
    ],
    table: Annotated[list[str], _many("table", _WORLD, "DynamoDB table.", TABLE_FORM)],
    items: Annotated[
        list[str], _many("items", _WORLD, "A table's content at the start.", "table=file.json")
    ],
    key: Annotated[
        str, _one("key", _SAMPLES, "Field of the body that identifies an event.", "a.b.c")
    ] = "",
    root: Annotated[
        Path, _one("root", _FUNCTION, "Folder that the package is made of.", "FOLDER")
    ] = Path(),
    env: Annotated[
        list[str],
        _many(
            "env",
            _FUNCTION,
            "Environment variable. In a value, {queue:name}, {source} and {dlq} become queue URLs, "
            "and {topic:name} an ARN.",
            "NAME=VALUE",
        ),
    ],
    timeout: Annotated[str, _one("timeout", _FUNCTION, "Timeout; default 30s.", "DURATION")] = "",
    batch_size: Annotated[int, _count(_FUNCTION, "Batch size.")] = 10,
    no_batch_failures: Annotated[
        bool,
        _one("no-batch-failures", _FUNCTION, "The mapping has no ReportBatchItemFailures."),
    ] = False,
    keep: Annotated[
        list[str],
        _many(
            "keep",
            _FUNCTION,
            "Package that is imported once for all processes: it holds no state.",
            "PACKAGE",
        ),
    ],
    queue: Annotated[list[str], _many("queue", _WORLD, "Another queue.", "NAME")],
    topic: Annotated[list[str], _many("topic", _WORLD, "SNS topic.", "NAME")],
    bucket: Annotated[list[str], _many("bucket", _WORLD, "S3 bucket.", "NAME")],
    answer: Annotated[
        list[str],
        _many(
            "answer",
            _WORLD,
            "Answer to HTTP calls whose URL begins so; others receive 200 and {}.",
            ANSWER_FORM,
        ),
    ],
    fifo: Annotated[bool, _one("fifo", _WORLD, "The source is a FIFO queue.")] = False,
    visibility: Annotated[
        str,
        _one("visibility", _WORLD, "Visibility timeout of the source; default 180s.", "DURATION"),
    ] = "",
    max_receives: Annotated[int, _count(_WORLD, "maxReceiveCount of the source.")] = 5,
    horizon: Annotated[
        str,
        _one(
            "horizon",
            _SCENARIOS,
            "Longest time after which a message may arrive again; default 14d.",
            "DURATION",
        ),
    ] = "",
    ignore: Annotated[
        list[str], _many("ignore", _SCENARIOS, "Attribute that may differ.", "table.attribute")
    ],
    repeatable: Annotated[
        list[str],
        _many(
            "repeatable",
            _SCENARIOS,
            "Queue, topic, bus or URL whose receivers tolerate a message twice.",
            "NAME",
        ),
    ],
    skip: Annotated[list[str], _many("skip", _SCENARIOS, "Fault that does not apply.", "FAULT")],
    only: Annotated[list[str], _many("only", _SCENARIOS, "Run this fault alone.", "FAULT")],
    seed: Annotated[
        int,
        _one(
            "seed",
            _SCENARIOS,
            "Draws values and interleavings; the same seed gives the same report.",
            "N",
        ),
    ] = 1,
    replay: Annotated[
        str,
        _one("replay", _SCENARIOS, "Run one scenario and tell it step by step.", "SCENARIO"),
    ] = "",
    as_json: Annotated[
        bool, _one("json", _OUTPUT, "Print JSON, and nothing else on stdout.")
    ] = False,
    every_failure: Annotated[bool, _one("all", _OUTPUT, "Tell every failing scenario.")] = False,
) -> None:
    """Check a handler under duplicates, crashes and lost answers.

    Exit codes: 0: no fault made a difference. 1: one did. 2: the options or the handler are wrong.
    3: no verdict.
    """
    subject = subject_from(locals())
    if (
        sys.stderr.isatty()
    ):  # tell a person why nothing is shown for seconds; a log has no use for it
        EscapingConsole(sys.stderr).print(f"checking {handler} …")
    with isolated():
        report = run_check(subject, seed=seed, only=only, replay=replay)
    console = EscapingConsole(sys.stdout)
    if replay:
        [result] = report.results
        print_scenario(result, console)
        if not result.fired:
            raise typer.Exit(ExitCode.NO_VERDICT)
        raise typer.Exit(ExitCode.DIFFERENCE if result.differences else ExitCode.PASSED)

    def repeat(scenario: str) -> str:
        return shlex.join(["redelivery", *context.obj, "--replay", scenario, "--seed", str(seed)])

    if as_json:
        typer.echo(json_text(report))
    else:
        print_report(report, console, repeat=repeat, every_failure=every_failure)
    raise typer.Exit(_CODES[verdict(report)])
