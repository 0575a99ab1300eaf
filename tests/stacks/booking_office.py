"""A small registry with FIFO and fair queues, synthesized: what the shop's lines do not have."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from once.cdk import CommandProps, ConsumerProps, Dedup, Registry, TableProps, assemble
from tests.stacks.cloud import Cloud, new_app, without_packages

SEATS = TableProps("seats", "seat")
BOOKING = ConsumerProps(
    "booking",
    external=("seat.asked",),
    tables=(SEATS,),
    publishes=("seat.taken", "seat.priced"),
    publishes_later=("seat.counted",),
)
PLAN = ConsumerProps(
    "plan", events=("seat.taken",), tables=(SEATS,), fifo=True, ordered_by="show.id"
)
GATE = ConsumerProps(
    "gate",
    external=("gate.moved",),
    tables=(SEATS,),
    fifo=True,
    ordered_by="gate",
    blocks_group=True,
)
PRICES = ConsumerProps(
    "prices", events=("seat.priced",), tables=(SEATS,), batch_size=1, fair_by="tenant_id"
)
ARCHIVE = ConsumerProps(
    "archive", events=("seat.taken", "seat.counted"), external=("gate.moved",), tables=(SEATS,)
)
LINES = (BOOKING, PLAN, GATE, PRICES, ARCHIVE)

_HANDLER = """from once import Consumer, Key

consumer = Consumer({name!r})
"""
_HANDLES = """

@consumer.handles({event!r}, dict{key})
def handle_{number}(event, tx): ...
"""


_COMMANDS = """from once import Commands, Scope

api = Commands({name!r})
lambda_handler = api.http({routes!r}, scope=Scope.{scope}("sub"))
"""
_RUNS = """

@api.handles({command!r}, dict)
def run_{number}(command, tx): ...
"""


def commands_in(folder: Path, *lines: CommandProps) -> list[CommandProps]:
    """Write a handler for each command of each line, and return the lines with their folders."""
    for line in lines:
        (folder / line.name).mkdir(parents=True)
        scope = line.auth.scopes[0] if line.auth else "by"
        text = _COMMANDS.format(name=line.name, routes=dict(line.routes), scope=scope) + "".join(
            _RUNS.format(command=command, number=number)
            for number, command in enumerate(line.settings["commands"])
        )
        (folder / line.name / "handler.py").write_text(text)
    return [replace(line, folder=folder / line.name) for line in lines]


def lines_in(folder: Path, lines: Sequence[ConsumerProps] = LINES) -> list[ConsumerProps]:
    """Write a handler for each type of each line, and return the lines with their folders."""
    for line in lines:
        (folder / line.name).mkdir(parents=True)
        key = f", key=Key.field({line.tables[0].key!r})" if line.dedup is Dedup.ITEM else ""
        text = _HANDLER.format(name=line.name) + "".join(
            _HANDLES.format(event=event, number=number, key=key)
            for number, event in enumerate(line.event_types)
        )
        (folder / line.name / "handler.py").write_text(text)
    return [replace(line, folder=folder / line.name) for line in lines]


def registry_in(folder: Path, lines: Sequence[ConsumerProps]) -> Registry:
    """Return a registry of these lines, whose names were never deployed."""
    deployed = folder / "deployed.json"
    deployed.write_text("{}")
    return Registry(lines, file=Path("lines.py"), functions=folder / "functions", deployed=deployed)


def booking_office(folder: Path, lines: Sequence[ConsumerProps] = LINES) -> Cloud:
    """Synthesize the registry."""
    lines = lines_in(folder / "functions", lines)
    with without_packages():
        app = new_app(folder / "out", email_sender="office@theatre.de")
        assemble(app, registry_in(folder, lines))
        app.synth()
    return Cloud(folder / "out")
