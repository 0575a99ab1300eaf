"""A small registry with FIFO and fair queues, synthesized: what the shop's lines do not have."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk import ConsumerProps, Registry, TableProps, assemble
from once.cdk.packaging import function_package as package_module
from tests.stacks.cloud import Cloud, new_app

SEATS = TableProps("seats", "seat")
BOOKING = ConsumerProps(
    "booking",
    external=("seat.asked",),
    tables=(SEATS,),
    publishes=("seat.taken", "seat.priced", "seat.counted"),
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

_HANDLER = """from once import Consumer

consumer = Consumer({name!r})
"""
_HANDLES = """

@consumer.handles({event!r}, dict)
def handle_{number}(event, tx): ...
"""


def lines_in(folder: Path, lines: Sequence[ConsumerProps] = LINES) -> list[ConsumerProps]:
    """Write a handler for each type of each line, and return the lines with their folders."""
    for line in lines:
        (folder / line.name).mkdir(parents=True)
        text = _HANDLER.format(name=line.name) + "".join(
            _HANDLES.format(event=event, number=number)
            for number, event in enumerate(line.event_types)
        )
        (folder / line.name / "handler.py").write_text(text)
    return [replace(line, folder=folder / line.name) for line in lines]


def registry_in(folder: Path, lines: Sequence[ConsumerProps]) -> Registry:
    """Return a registry of these lines, whose names were never deployed."""
    deployed = folder / "deployed.json"
    deployed.write_text("{}")
    return Registry(lines, file=Path("lines.py"), functions=folder / "functions", deployed=deployed)


@contextmanager
def without_wheels(folder: Path) -> Iterator[None]:
    """Package functions without installing wheels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package_module, "STAGED", folder / "build")
        patch.setattr(package_module, "SITES", folder / "site")
        patch.setattr(package_module, "_install", lambda site, *_: (site / "six.py").touch())
        yield


@contextmanager
def booking_office(folder: Path, *, local: bool = False) -> Iterator[Cloud]:
    """Synthesize the registry without installing wheels."""
    lines = lines_in(folder / "functions")
    with without_wheels(folder):
        app = new_app(folder / "out", local=local, email_sender="office@theatre.de")
        assemble(app, registry_in(folder, lines))
        app.synth()
        yield Cloud(folder / "out", local)
