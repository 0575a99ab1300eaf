import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.batches import rows_of
from benchmarks.contenders import (
    GROUPED,
    ITEM_GROUPED,
    RAW,
    UNGROUPED,
)
from benchmarks.goals import goals_of
from benchmarks.rows import Row
from benchmarks.webhooks.measure import INGRESS
from tests.benchmarks.sample_rows import IMPORTS, SETTINGS, rows, taken

KEYS = {
    *("contender", "records", "delay_ms", "duplicates", "conflicts"),
    *("wall_us", "cpu_us", "requests", "write_units", "vs_raw", "vs_powertools"),
    *("cpu_vs_raw", "write_units_vs_raw", "write_units_least"),
}


def printed(found: list[Row], imports: list[Row], width: int = 80) -> str:
    out = StringIO()
    report.show(found, imports, goals_of(found, imports), Console(file=out, width=width))
    return out.getvalue()


def with_figures(field: str, value: float, **selected: Any) -> list[Row]:
    """Return good rows, with another figure in the selected ones."""
    found = rows()
    for row in found:
        if selected.items() <= row.items():
            row[field] = value
    return found


def missed(found: list[Row], imports: list[Row] = IMPORTS) -> set[str]:
    return {goal.figure for goal in goals_of(found, imports) if not goal.holds}


def test_a_row_has_the_documented_keys() -> None:
    assert all(row.keys() >= KEYS for row in rows())


def test_ratios_are_taken_within_a_repeat_and_figures_over_all() -> None:
    samples = {
        RAW: [taken(100), taken(1000), taken(200)],
        GROUPED: [taken(50), taken(100), taken(20)],
    }
    raw, grouped = rows_of(SETTINGS[0], samples)
    assert (raw["wall_us"], grouped["wall_us"]) == (200, 50)
    assert grouped["vs_raw"] == 0.1
    assert grouped["vs_powertools"] is None
    assert raw["repeats"] == 3


def test_every_goal_holds_in_a_good_run() -> None:
    assert missed(rows()) == set()
    goals = goals_of(rows(), IMPORTS)
    assert [goal.seen for goal in goals if goal.figure.startswith("import")] == [1.3, 1.4, 1.2]


def test_a_missed_goal_is_shown_as_missed() -> None:
    found = rows(grouped_wall=200)
    assert "grouped, wall / raw" in missed(found)
    lines = printed(found, IMPORTS).splitlines()
    [line] = [line for line in lines if "│ grouped, wall / raw" in line]
    assert "0.120" in line
    assert "0.200" in line
    assert line.rstrip(" │").endswith("no")


@pytest.mark.parametrize(
    ("found", "missing", "holding"),
    [
        pytest.param(
            rows(grouped_units=5),
            {
                "grouped, 10 % duplicates, write units / raw",
                "any Once, 5 % conflicts, write units / raw",
            },
            "any Once, 5 % conflicts, requests / raw",
            id="the upper bound of write units counts",
        ),
        pytest.param(
            with_figures("requests_vs_raw", 1.2, contender=UNGROUPED, records=100),
            {"any Once, 5 % conflicts, requests / raw"},
            "grouped, wall / raw",
            id="the worst form of the library counts",
        ),
        pytest.param(
            with_figures("write_units", 3.0, contender=ITEM_GROUPED, records=100),
            {"Once, item, grouped, most write units"},
            "Once, item, most write units",
            id="item dedup saves write units in every setting",
        ),
        pytest.param(
            with_figures("vs_raw", 0.5, contender=GROUPED),
            {"grouped, wall / raw"},
            "grouped, 100 records, wall / raw",
            id="threads count for some goals",
        ),
        pytest.param(
            with_figures("vs_put", 1.9, contender=INGRESS, request="genuine", delay_ms=0),
            {"webhook ingress, 0 ms, wall / verify, then put"},
            "webhook ingress, 5 ms, wall / verify, then put",
            id="a slow ingress is detected at each delay",
        ),
        pytest.param(
            with_figures("cpu_vs_genuine", 0.9, contender=INGRESS, request="forged"),
            {"webhook ingress, forged, CPU / genuine"},
            "webhook ingress, duplicate, CPU / genuine",
            id="a forged webhook costs less than a genuine one",
        ),
    ],
)
def test_worse_figures_miss_their_goals(found: list[Row], missing: set[str], holding: str) -> None:
    assert missing <= missed(found)
    assert holding not in missed(found)


def test_a_goal_that_was_not_measured_is_missed() -> None:
    assert len(missed([], [])) == len(goals_of([], []))
    assert "not measured" in printed([], [])


@pytest.mark.parametrize(
    ("slow", "which"),
    [
        (1, "a consumer"),
        (2, "a consumer with libraries of its own"),
        (3, "the webhook ingress"),
    ],
)
def test_a_slow_import_misses_its_goal(slow: int, which: str) -> None:
    imports = [row | {"vs_boto3": 1.6} if n == slow else row for n, row in enumerate(IMPORTS)]
    assert missed(rows(), imports) == {f"import of {which}, CPU / boto3"}


def test_the_tables_fit_into_a_terminal_of_80_columns() -> None:
    text = printed(rows(grouped_units=4.4), IMPORTS)
    assert "…" not in text
    for wanted in (
        *("raw transaction", "4.00–4.40", "10 % duplicates", "10 records, embedded"),
        *("webhook ingress", "duplicate, 5 ms"),
    ):
        assert wanted in text


def test_the_report_is_a_json_list_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "bench.json"
    report.write(rows(), file)
    assert json.loads(file.read_text()) == rows()


def test_titles_say_the_setting() -> None:
    titles: list[Any] = [str(setting) for setting in SETTINGS[5:]]
    assert titles[:2] == ["100 records, model", "10 records, 5 ms, 10 % duplicates"]
    assert titles[-1] == "10 records, 5 ms, 100 % redelivered"
