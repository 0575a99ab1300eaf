"""Goals: upper limits of the library's figures, and the figures of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import GROUPED, GROUPED_THREADS, ITEM, ITEM_GROUPED, UNGROUPED
from benchmarks.dynamodb import MODEL
from benchmarks.rows import EMBEDDED, Row, select
from benchmarks.webhooks.measure import INGRESS, Kind, webhooks_in
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

LIBRARY = (UNGROUPED, GROUPED, GROUPED_THREADS, ITEM, ITEM_GROUPED)
_GROUPED, _BEST_GROUPED = (GROUPED,), (GROUPED, GROUPED_THREADS)
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
    model, many, known = {"delay_ms": MODEL}, {"records": 100}, {"duplicates": 1.0}
    limits: Sequence[tuple[str, float, Sequence[str], str, Row]] = (
        ("ungrouped, wall / raw", 1.10, (UNGROUPED,), "vs_raw", {}),
        ("ungrouped, CPU / raw", 1.25, (UNGROUPED,), "cpu_vs_raw", {}),
        ("grouped, wall / raw", 0.12, _GROUPED, "vs_raw", {}),
        ("grouped, CPU / raw", 0.15, _GROUPED, "cpu_vs_raw", {}),
        ("grouped, wall / Powertools", 0.06, _GROUPED, "vs_powertools", {}),
        ("grouped, 100 records, wall / raw", 0.08, _BEST_GROUPED, "vs_raw", many),
        ("grouped, model, wall / raw", 0.14, _BEST_GROUPED, "vs_raw", model),
        ("grouped, model, 100 records, wall / raw", 0.05, _BEST_GROUPED, "vs_raw", model | many),
        ("grouped, 10 % duplicates, wall / raw", 0.30, _GROUPED, "vs_raw", _DUPLICATES),
        (
            *("grouped, 10 % duplicates, write units / raw", 1.10, _GROUPED),
            *("write_units_vs_raw", _DUPLICATES),
        ),
        ("grouped, 5 % conflicts, wall / raw", 0.60, _GROUPED, "vs_raw", _CONFLICTS),
        (
            *("grouped, 5 % conflicts, write units / raw", 1.30, _GROUPED),
            *("write_units_vs_raw", _CONFLICTS),
        ),
        (
            *("known duplicates, redelivered: requests", 0.1, _GROUPED),
            *("requests", known | {"redelivered": True}),
        ),
    )
    goals = [
        Goal(name, goal, figure(rows, contenders, field, **setting))
        for name, goal, contenders, field, setting in limits
    ]
    return [*goals, *_library_goals(rows), *_webhook_goals(rows), *_import_goals(imports)]


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


def _library_goals(rows: Sequence[Row]) -> list[Goal]:
    """Return goals for all forms of the library, end to end, and for item dedup."""
    goals = []
    for name, faults in (("10 % duplicates", _DUPLICATES), ("5 % conflicts", _CONFLICTS)):
        for label in ("requests", "write units"):
            field = f"{label.replace(' ', '_')}_vs_raw"
            seen = _most(
                figure(rows, (contender,), field, **faults, records=records)
                for contender in LIBRARY
                for records in (10, 100)
            )
            goals.append(Goal(f"any Once, {name}, {label} / raw", 1.10, seen))
    # 0.9 of the rate of a function that does nothing.
    seen = figure(rows, (GROUPED_THREADS,), "vs_nothing", delay_ms=EMBEDDED)
    goals.append(Goal("grouped, embedded, wall / nothing but the batch", 1.11, seen))
    for contender in (ITEM, ITEM_GROUPED):
        # In each setting fewer write units than Powertools without one.
        seen = _most(row["write_units"] for row in rows if row["contender"] == contender)
        goals.append(Goal(f"{contender}, most write units", 2.97, seen))
    seen = figure(rows, (ITEM_GROUPED,), "vs_raw")
    return [*goals, Goal(f"{ITEM_GROUPED}, wall / raw", 0.13, seen)]


def _webhook_goals(rows: Sequence[Row]) -> list[Goal]:
    """Return goals for the ingress: beside verify and put, and for its other requests.

    None is for the model: there a transaction alone takes 3.2 times as long as a put.
    """
    goals = []
    for title, kind, delay, field, goal in (
        ("0 ms, wall / verify, then put", Kind.GENUINE, 0, "vs_put", 1.60),
        ("5 ms, wall / verify, then put", Kind.GENUINE, 5, "vs_put", 1.15),
        ("5 ms, CPU / verify, then put", Kind.GENUINE, 5, "cpu_vs_put", 1.50),
        ("embedded, wall / verify, then put", Kind.GENUINE, EMBEDDED, "vs_put", 1.40),
        ("duplicate, CPU / genuine", Kind.DUPLICATE, 5, "cpu_vs_genuine", 1.25),
        ("forged, CPU / genuine", Kind.FORGED, 5, "cpu_vs_genuine", 0.05),
    ):
        found = webhooks_in(rows, contender=INGRESS, request=kind, delay_ms=delay)
        goals.append(Goal(f"{INGRESS}, {title}", goal, _most(row[field] for row in found)))
    return goals


def _import_goals(imports: Sequence[Row]) -> list[Goal]:
    """Return goals for the ingress, and for the slowest consumer with and without own libraries."""
    own = {
        line.name for line in CONSUMERS if (REGISTRY.folder_of(line) / "requirements.txt").exists()
    }
    kinds = {
        "a consumer": {line.name for line in CONSUMERS} - own,
        "a consumer with libraries of its own": own,
        "the webhook ingress": {WEBHOOKS.name},
    }
    loaded = [row for row in imports if row["bytecode"]]
    return [
        Goal(
            f"import of {which}, CPU / boto3",
            1.5,
            _most(row["vs_boto3"] for row in loaded if row["contender"] in names),
        )
        for which, names in kinds.items()
    ]


def _most(figures: Iterable[float | None]) -> float | None:
    return max((value for value in figures if value is not None), default=None)
