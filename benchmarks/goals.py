"""Goals: upper limits of the library's figures, and the figures of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import GROUPED, GROUPED_THREADS, ITEM, ITEM_GROUPED, UNGROUPED
from benchmarks.latency import MODEL, Delay
from benchmarks.rows import EMBEDDED, Row, select
from benchmarks.webhooks.functions import INGRESS
from benchmarks.webhooks.requests import Kind
from benchmarks.webhooks.rows import webhooks_in
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

LIBRARY = (UNGROUPED, GROUPED, GROUPED_THREADS, ITEM, ITEM_GROUPED)
_BEST_GROUPED = (GROUPED, GROUPED_THREADS)
_DUPLICATES: Row = {"duplicates": 0.1}
_CONFLICTS: Row = {"conflicts": 0.05}


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its upper limit; `seen` is None if it was not measured."""

    figure: str
    goal: float
    seen: float | None

    @property
    def holds(self) -> bool:
        """Whether the figure was measured and does not exceed the goal."""
        return self.seen is not None and self.seen <= self.goal


def goals_of(rows: Sequence[Row], imports: Sequence[Row]) -> list[Goal]:
    """Return every goal with its figure, from the rows of the bench and of the cold start.

    The default setting is ten records a batch, 5 ms an answer and no faults.
    """
    return [
        *_clean(rows),
        *_with_faults(rows),
        *_never_worse(rows),
        *_end_to_end(rows),
        *_item_dedup(rows),
        *_webhooks(rows),
        *_imports(imports),
    ]


def figure(
    rows: Sequence[Row], contenders: Sequence[str], field: str, **setting: Any
) -> float | None:
    """Return the lowest figure of some contenders in a setting; None if it was not measured.

    Args:
        rows: all rows.
        contenders: names of the contenders.
        field: key of the figure.
        setting: differences from the default setting.
    """
    found = [row[field] for row in select(rows, **setting) if row["contender"] in contenders]
    return min((value for value in found if value is not None), default=None)


def _clean(rows: Sequence[Row]) -> Iterator[Goal]:
    model, many = {"delay_ms": MODEL}, {"records": 100}
    grouped, threads = (GROUPED,), _BEST_GROUPED
    yield Goal("ungrouped, wall / raw", 1.10, figure(rows, (UNGROUPED,), "vs_raw"))
    yield Goal("ungrouped, CPU / raw", 1.25, figure(rows, (UNGROUPED,), "cpu_vs_raw"))
    yield Goal("grouped, wall / raw", 0.12, figure(rows, grouped, "vs_raw"))
    yield Goal("grouped, CPU / raw", 0.15, figure(rows, grouped, "cpu_vs_raw"))
    yield Goal("grouped, wall / Powertools", 0.06, figure(rows, grouped, "vs_powertools"))
    yield Goal("grouped, 100 records, wall / raw", 0.08, figure(rows, threads, "vs_raw", **many))
    yield Goal("grouped, model, wall / raw", 0.14, figure(rows, threads, "vs_raw", **model))
    yield Goal(
        "grouped, model, 100 records, wall / raw",
        0.05,
        figure(rows, threads, "vs_raw", **model, **many),
    )


def _with_faults(rows: Sequence[Row]) -> Iterator[Goal]:
    grouped = (GROUPED,)
    for name, faults, wall, units in (
        ("10 % duplicates", _DUPLICATES, 0.30, 1.10),
        ("5 % conflicts", _CONFLICTS, 0.60, 1.30),
    ):
        yield Goal(f"grouped, {name}, wall / raw", wall, figure(rows, grouped, "vs_raw", **faults))
        yield Goal(
            f"grouped, {name}, write units / raw",
            units,
            figure(rows, grouped, "write_units_vs_raw", **faults),
        )
    known = {"duplicates": 1.0, "redelivered": True}
    yield Goal(
        "known duplicates, redelivered: requests",
        0.1,
        figure(rows, grouped, "requests", **known),
    )


def _never_worse(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield goals for the worst figure of all forms of the library at both batch sizes."""
    for name, faults in (("10 % duplicates", _DUPLICATES), ("5 % conflicts", _CONFLICTS)):
        for label, field in (
            ("requests", "requests_vs_raw"),
            ("write units", "write_units_vs_raw"),
        ):
            found = [
                figure(rows, (contender,), field, **faults, records=records)
                for contender in LIBRARY
                for records in (10, 100)
            ]
            seen = max((value for value in found if value is not None), default=None)
            yield Goal(f"any Once, {name}, {label} / raw", 1.10, seen)


def _end_to_end(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield the goal of 0.9 of the rate of a function that does nothing."""
    seen = figure(rows, (GROUPED_THREADS,), "vs_nothing", delay_ms=EMBEDDED)
    yield Goal("grouped, embedded, wall / nothing but the batch", 1.11, seen)


def _item_dedup(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield goals for item dedup: in each setting fewer write units than Powertools without one."""
    for contender in (ITEM, ITEM_GROUPED):
        found = [row["write_units"] for row in rows if row["contender"] == contender]
        units = [value for value in found if value is not None]
        yield Goal(f"{contender}, most write units", 2.97, max(units, default=None))
    grouped = (ITEM_GROUPED,)
    yield Goal(f"{ITEM_GROUPED}, wall / raw", 0.13, figure(rows, grouped, "vs_raw"))


def _webhooks(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield goals for the ingress: beside verify and put, and for its other requests.

    None is for the model: there a transaction alone takes 3.2 times as long as a put.
    """
    for title, delay, field, goal in (
        ("0 ms, wall", 0, "vs_put", 1.60),
        ("5 ms, wall", 5, "vs_put", 1.15),
        ("5 ms, CPU", 5, "cpu_vs_put", 1.50),
        ("embedded, wall", EMBEDDED, "vs_put", 1.40),
    ):
        seen = _webhook(rows, Kind.GENUINE, delay, field)
        yield Goal(f"{INGRESS}, {title} / verify, then put", goal, seen)
    for kind, goal in ((Kind.DUPLICATE, 1.25), (Kind.FORGED, 0.05)):
        seen = _webhook(rows, kind, 5, "cpu_vs_genuine")
        yield Goal(f"{INGRESS}, {kind}, CPU / genuine", goal, seen)


def _webhook(rows: Sequence[Row], kind: Kind, delay_ms: Delay | str, field: str) -> float | None:
    found = webhooks_in(rows, contender=INGRESS, request=kind, delay_ms=delay_ms)
    return next((row[field] for row in found), None)


def _imports(imports: Sequence[Row]) -> Iterator[Goal]:
    """Yield goals for the ingress, and for the slowest consumer with and without own libraries."""
    own = {
        line.name for line in CONSUMERS if (REGISTRY.folder_of(line) / "requirements.txt").exists()
    }
    plain = {line.name for line in CONSUMERS} - own
    for names, which in (
        (plain, "a consumer"),
        (own, "a consumer with libraries of its own"),
        ({WEBHOOKS.name}, "the webhook ingress"),
    ):
        found = (row for row in imports if row["contender"] in names and row["bytecode"])
        seen = max((row["vs_boto3"] for row in found), default=None)
        yield Goal(f"import of {which}, CPU / boto3", 1.5, seen)
