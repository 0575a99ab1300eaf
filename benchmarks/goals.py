"""Goals: upper limits of the library's figures, and the figures of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.commands import NEW, REPEATED
from benchmarks.commands import ONCE as COMMAND
from benchmarks.contenders import GROUPED, GROUPED_THREADS, ITEM, ITEM_GROUPED, UNGROUPED
from benchmarks.dynamodb import MODEL
from benchmarks.effects import ONCE
from benchmarks.rows import EMBEDDED, ONE_COMMAND, Row, select
from benchmarks.webhooks import INGRESS, Kind, webhooks_in
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
    """Return every goal with its figure, from the rows of the bench and of the cold start."""
    goals: list[Goal] = []

    def best(name: str, goal: float, contenders: Sequence[str], field: str, **setting: Any) -> None:
        goals.append(Goal(name, goal, figure(rows, contenders, field, **setting)))

    def worst(name: str, goal: float, field: str, found: Iterable[Row]) -> None:
        values = [row[field] for row in found if row[field] is not None]
        goals.append(Goal(name, goal, max(values, default=None)))

    model, many, units = {"delay_ms": MODEL}, {"records": 100}, "write_units_vs_raw"
    grouped, known = (GROUPED,), {"duplicates": 1.0, "redelivered": True}
    best("ungrouped, wall / raw", 1.10, (UNGROUPED,), "vs_raw")
    best("ungrouped, CPU / raw", 1.25, (UNGROUPED,), "cpu_vs_raw")
    best("grouped, wall / raw", 0.12, grouped, "vs_raw")
    best("grouped, CPU / raw", 0.15, grouped, "cpu_vs_raw")
    best("grouped, wall / Powertools", 0.06, grouped, "vs_powertools")
    best("grouped, 100 records, wall / raw", 0.08, _BEST_GROUPED, "vs_raw", **many)
    best("grouped, model, wall / raw", 0.14, _BEST_GROUPED, "vs_raw", **model)
    best("grouped, model, 100 records, wall / raw", 0.05, _BEST_GROUPED, "vs_raw", **model, **many)
    best("grouped, 10 % duplicates, wall / raw", 0.30, grouped, "vs_raw", **_DUPLICATES)
    best("grouped, 10 % duplicates, write units / raw", 1.10, grouped, units, **_DUPLICATES)
    best("grouped, 5 % conflicts, wall / raw", 0.60, grouped, "vs_raw", **_CONFLICTS)
    best("grouped, 5 % conflicts, write units / raw", 1.30, grouped, units, **_CONFLICTS)
    best("known duplicates, redelivered: requests", 0.1, grouped, "requests", **known)
    for name, faults in (("10 % duplicates", _DUPLICATES), ("5 % conflicts", _CONFLICTS)):
        found = [row for n in (10, 100) for row in select(rows, **faults, records=n)]
        own = [row for row in found if row["contender"] in LIBRARY]
        worst(f"any Once, {name}, requests / raw", 1.10, "requests_vs_raw", own)
        worst(f"any Once, {name}, write units / raw", 1.10, units, own)
    best("grouped, embedded, wall / raw", 0.40, (GROUPED_THREADS,), "vs_raw", delay_ms=EMBEDDED)
    for title, field, goal in (
        ("wall without two commits / one call", "vs_one_call", 1.25),
        ("Lambda time / one message a batch", "vs_sequential", 0.13),
        ("wall / raw with threads", "vs_raw_threads", 1.10),
        ("requests of a message", "requests_per_message", 0.2),
    ):
        own = select(rows, kind="effects", contender=ONCE)
        worst(f"ten effects, {title}", goal, field, own)
    for name in (ITEM, ITEM_GROUPED):
        # In each setting fewer write units than Powertools without one.
        own = [row for row in rows if row["contender"] == name]
        worst(f"{name}, most write units", 2.97, "write_units", own)
    best(f"{ITEM_GROUPED}, wall / raw", 0.13, (ITEM_GROUPED,), "vs_raw")
    # None is for the model: there a transaction alone takes 3.2 times as long as a put.
    for title, kind, delay, field, goal in (
        ("0 ms, wall / verify, then put", Kind.GENUINE, 0, "vs_put", 1.60),
        ("5 ms, wall / verify, then put", Kind.GENUINE, 5, "vs_put", 1.15),
        ("5 ms, CPU / verify, then put", Kind.GENUINE, 5, "cpu_vs_put", 1.50),
        ("embedded, wall / verify, then put", Kind.GENUINE, EMBEDDED, "vs_put", 1.40),
        ("duplicate, CPU / genuine", Kind.DUPLICATE, 5, "cpu_vs_genuine", 1.25),
        ("forged, CPU / genuine", Kind.FORGED, 5, "cpu_vs_genuine", 0.05),
    ):
        own = webhooks_in(rows, contender=INGRESS, request=kind, delay_ms=delay)
        worst(f"{INGRESS}, {title}", goal, field, own)
    for sent, other in ((NEW, "raw transaction"), (REPEATED, "cancelled transaction")):
        same = {"kind": "commands", "contender": COMMAND, "records": 1, "sent": sent}
        own = [row for row in rows if same.items() <= row.items()]
        worst(f"{sent} command, requests", 1.0, "requests", own)
        for delay, title in ((5, "5 ms"), (MODEL, "model")):
            at = [row for row in own if row["delay_ms"] == delay]
            worst(f"{sent} command, {title}, wall / {other}", 1.05, "vs_raw", at)
    with_libraries = {
        line.name for line in CONSUMERS if (REGISTRY.folder_of(line) / "requirements.txt").exists()
    }
    for which, goal, names in (
        ("a consumer", 1.15, {line.name for line in CONSUMERS} - with_libraries),
        ("a consumer with libraries of its own", 1.5, with_libraries),
        ("the webhook ingress", 1.5, {WEBHOOKS.name}),
    ):
        own = [row for row in imports if row["contender"] in names]
        worst(f"import of {which}, CPU / boto3", goal, "vs_boto3", own)
    own = [row for row in imports if row["contender"] == ONE_COMMAND]
    worst("import of one command, CPU / a consumer of one handler", 1.0, "vs_handler", own)
    return goals


def figure(
    rows: Sequence[Row], contenders: Sequence[str], field: str, **setting: Any
) -> float | None:
    """Return the lowest figure of some contenders in a setting; None if it was not measured."""
    found = [row[field] for row in select(rows, **setting) if row["contender"] in contenders]
    return min((value for value in found if value is not None), default=None)
