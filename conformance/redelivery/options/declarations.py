"""Declarations of the options of `redelivery check`, with their help."""

from pathlib import Path
from typing import Annotated, Any

import typer

from redelivery.options.answers import ANSWER_FORM
from redelivery.options.tables import TABLE_FORM

_SAMPLES, _FUNCTION, _WORLD = "Messages", "Function", "What exists"
_SCENARIOS, _OUTPUT = "Scenarios", "Output"


def _option(name: str, text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel=panel, metavar=metavar)


def _repeatable(name: str, text: str, panel: str, metavar: str) -> Any:
    return typer.Option(
        f"--{name}",
        help=f"{text} Repeatable.",
        rich_help_panel=panel,
        metavar=metavar,
        default_factory=list,
        show_default=False,
    )


Handler = Annotated[str, typer.Argument(help="The handler as Lambda names it: module.function.")]

Event = Annotated[
    list[str],
    _repeatable(
        "event",
        "File with a message's body or an SQS event; - for standard input.",
        _SAMPLES,
        "FILE",
    ),
]
Key = Annotated[
    str, _option("key", "Field of the body that identifies an event.", _SAMPLES, "a.b.c")
]

Root = Annotated[Path, _option("root", "Folder that the package is made of.", _FUNCTION, "FOLDER")]
Env = Annotated[
    list[str],
    _repeatable(
        "env",
        "Environment variable. In a value, {queue:name}, {source} and {dlq} become queue URLs, "
        "and {topic:name} an ARN.",
        _FUNCTION,
        "NAME=VALUE",
    ),
]
Timeout = Annotated[str, _option("timeout", "Timeout; default 30s.", _FUNCTION, "DURATION")]
BatchSize = Annotated[
    int,
    typer.Option(min=1, help="Batch size.", rich_help_panel=_FUNCTION, metavar="N"),
]
NoBatchFailures = Annotated[
    bool,
    _option("no-batch-failures", "The mapping has no ReportBatchItemFailures.", _FUNCTION),
]
Keep = Annotated[
    list[str],
    _repeatable(
        "keep",
        "Package that is imported once for all processes: it holds no state.",
        _FUNCTION,
        "PACKAGE",
    ),
]

TableOption = Annotated[list[str], _repeatable("table", "DynamoDB table.", _WORLD, TABLE_FORM)]
Items = Annotated[
    list[str],
    _repeatable("items", "A table's content at the start.", _WORLD, "table=file.json"),
]
Queue = Annotated[list[str], _repeatable("queue", "Another queue.", _WORLD, "NAME")]
Topic = Annotated[list[str], _repeatable("topic", "SNS topic.", _WORLD, "NAME")]
Bucket = Annotated[list[str], _repeatable("bucket", "S3 bucket.", _WORLD, "NAME")]
AnswerOption = Annotated[
    list[str],
    _repeatable(
        "answer",
        "Answer to HTTP calls whose URL begins so; others receive 200 and {}.",
        _WORLD,
        ANSWER_FORM,
    ),
]
Fifo = Annotated[bool, _option("fifo", "The source is a FIFO queue.", _WORLD)]
Visibility = Annotated[
    str,
    _option("visibility", "Visibility timeout of the source; default 180s.", _WORLD, "DURATION"),
]
MaxReceives = Annotated[
    int,
    typer.Option(min=1, help="maxReceiveCount of the source.", rich_help_panel=_WORLD, metavar="N"),
]

Horizon = Annotated[
    str,
    _option(
        "horizon",
        "Longest time after which a message may arrive again; default 14d.",
        _SCENARIOS,
        "DURATION",
    ),
]
Ignore = Annotated[
    list[str],
    _repeatable("ignore", "Attribute that may differ.", _SCENARIOS, "table.attribute"),
]
Repeatable = Annotated[
    list[str],
    _repeatable(
        "repeatable",
        "Queue, topic, bus or URL whose receivers tolerate a message twice.",
        _SCENARIOS,
        "NAME",
    ),
]
Skip = Annotated[list[str], _repeatable("skip", "Fault that does not apply.", _SCENARIOS, "FAULT")]
Only = Annotated[list[str], _repeatable("only", "Run this fault alone.", _SCENARIOS, "FAULT")]
Seed = Annotated[
    int,
    _option(
        "seed",
        "Draws values and interleavings; the same seed gives the same report.",
        _SCENARIOS,
        "N",
    ),
]
Replay = Annotated[
    str,
    _option(
        "replay",
        "Run one scenario and tell it step by step.",
        _SCENARIOS,
        "SCENARIO",
    ),
]

Json = Annotated[bool, _option("json", "Print JSON, and nothing else on stdout.", _OUTPUT)]
Every = Annotated[bool, _option("all", "Tell every failing scenario.", _OUTPUT)]
