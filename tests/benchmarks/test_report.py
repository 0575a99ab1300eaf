"""From samples to rows, goals, tables, picture and page."""

import json
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from benchmarks import chart, page, report
from benchmarks.contenders import CONTENDERS, GROUPED, GROUPED_THREADS, POWERTOOLS, RAW, UNGROUPED
from benchmarks.goals import Goal, goals_of
from benchmarks.matrix import Setting
from benchmarks.measure import Sample
from benchmarks.rows import EMBEDDED, Row, rows_of

KEYS = {
    *("contender", "records", "delay_ms", "duplicates", "conflicts"),
    *("wall_us", "cpu_us", "requests", "write_units", "vs_raw", "vs_powertools"),
    *("cpu_vs_raw", "write_units_vs_raw", "write_units_least"),
}
SETTINGS = (
    *(Setting(records=n, delay_ms=ms) for n in (10, 100) for ms in (0, 5, "model")),
    *(Setting(records=n, delay_ms=5, duplicates=0.1) for n in (10, 100)),
    *(Setting(records=n, delay_ms=5, conflicts=0.05) for n in (10, 100)),
    Setting(records=10, delay_ms=5, duplicates=1.0, redelivered=True),
)
IMPORTS: list[Row] = [
    {"contender": name, "bytecode": True, "cpu_ms": 1.0, "modules": 1, "vs_boto3": ratio}
    for name, ratio in (("boto3 and a client", 1.0), ("orders", 1.3), ("payments", 1.4))
]


def taken(wall: float, units: float = 4, requests: float = 1) -> Sample:
    return Sample(wall, wall / 10 + 10, requests, units, min(units, 4), 0)


def rows(grouped_wall: float = 40, grouped_units: float = 4) -> list[Row]:
    """Rows of a made-up run, in which everything is as it should be, or is said not to be."""
    samples = {c.name: [taken(1000)] for c in CONTENDERS}
    samples[POWERTOOLS] = [taken(3000, units=3, requests=3)]
    for name in (GROUPED, GROUPED_THREADS):
        samples[name] = [taken(grouped_wall, grouped_units, requests=0.1)]
    found = [row for setting in SETTINGS for row in rows_of(setting, samples)]
    return [*found, {**found[3], "delay_ms": EMBEDDED, "cpu_us": None, "requests": None,
                     "write_units": None, "write_units_least": None, "read_units": None,
                     "cpu_vs_raw": None, "vs_powertools": None}]  # fmt: skip


def printed(found: list[Row], imports: list[Row], width: int = 80) -> str:
    out = StringIO()
    report.show(found, imports, goals_of(found, imports), Console(file=out, width=width))
    return out.getvalue()


def missed(goals: list[Goal]) -> set[str]:
    return {goal.figure for goal in goals if not goal.holds}


def test_a_row_has_the_keys_that_readers_rely_on() -> None:
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
    goals = goals_of(rows(), IMPORTS)
    assert missed(goals) == set()
    assert [goal.seen for goal in goals if goal.figure.startswith("import")] == [1.3, 1.4]


def test_a_missed_goal_is_shown_as_missed() -> None:
    found = rows(grouped_wall=200)
    assert "grouped, wall / raw" in missed(goals_of(found, IMPORTS))
    line = next(
        line for line in printed(found, IMPORTS).splitlines() if "│ grouped, wall / raw" in line
    )
    assert "0.160" in line
    assert "0.200" in line
    assert line.rstrip(" │").endswith("no")


def test_write_units_are_held_to_their_upper_bound() -> None:
    goals = missed(goals_of(rows(grouped_units=5), IMPORTS))
    assert "grouped, 10 % duplicates, write units / raw" in goals
    assert "any Once, 5 % conflicts, write units / raw" in goals
    assert "any Once, 5 % conflicts, requests / raw" not in goals


def test_one_form_of_the_library_that_is_worse_is_enough() -> None:
    found = rows()
    for row in found:
        if row["contender"] == UNGROUPED and row["records"] == 100:
            row["requests_vs_raw"] = 1.2
    assert "any Once, 5 % conflicts, requests / raw" in missed(goals_of(found, IMPORTS))


def test_threads_count_only_where_the_goal_allows_them() -> None:
    found = rows()
    for row in found:
        if row["contender"] == GROUPED:
            row["vs_raw"] = 0.5
    goals = missed(goals_of(found, IMPORTS))
    assert "grouped, wall / raw" in goals
    assert "grouped, 100 records, wall / raw" not in goals


def test_what_was_not_measured_does_not_hold() -> None:
    goals = goals_of([], [])
    assert len(missed(goals)) == len(goals)
    assert "not measured" in printed([], [])


def test_an_import_that_is_too_slow_is_shown() -> None:
    plain, own = ({**IMPORTS[n], "vs_boto3": 1.6} for n in (1, 2))
    figure = "import of a consumer{}, CPU / boto3"
    assert missed(goals_of(rows(), [plain, IMPORTS[2]])) == {figure.format("")}
    own_libraries = figure.format(" with libraries of its own")
    assert missed(goals_of(rows(), [IMPORTS[1], own])) == {own_libraries}


def test_the_tables_fit_into_a_terminal_of_80_columns() -> None:
    text = printed(rows(grouped_units=4.4), IMPORTS)
    assert "…" not in text
    for wanted in ("raw transaction", "4.00–4.40", "10 % duplicates", "10 records, embedded"):
        assert wanted in text


def test_the_report_is_a_json_list_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "bench.json"
    report.write(rows(), file)
    assert json.loads(file.read_text()) == rows()


def test_the_picture_is_xml_with_a_bar_for_each_contender_and_panel() -> None:
    tree = ET.fromstring(chart.svg(rows()))
    name = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f"{name}rect")) == len(chart.PANELS) * len(CONTENDERS)
    texts = [text.text for text in tree.findall(f"{name}text")]
    assert texts.count(GROUPED) == len(chart.PANELS)
    assert "0.040" in texts
    right = float(tree.attrib["viewBox"].split()[2])
    assert all(float(bar.attrib["x"]) + float(bar.attrib["width"]) < right - 40
               for bar in tree.findall(f"{name}rect"))  # fmt: skip


def test_each_panel_shows_its_own_delay() -> None:
    found = rows()
    for row in found:
        row["vs_raw"] = {5: 0.25, "model": 0.5}.get(row["delay_ms"], 9.0)
    name = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in ET.fromstring(chart.svg(found)).findall(f"{name}text")]
    shown = [text for text in texts if text in {"0.25", "0.50", "9.00"}]
    assert shown == ["0.25"] * len(CONTENDERS) + ["0.50"] * len(CONTENDERS)


def test_the_picture_escapes_names() -> None:
    found = [{**row, "contender": "<&>"} for row in rows()]
    assert "<&>" in [element.text for element in ET.fromstring(chart.svg(found)).iter()]


def test_the_page_gets_the_figures_of_the_run_and_keeps_its_text() -> None:
    old = f"# Title\n\n{page.BEGIN}\noutdated\n{page.END}\n\nrest\n"
    new = page.rewritten(old, rows(), IMPORTS, goals_of(rows(), IMPORTS))
    assert new.startswith("# Title\n\n")
    assert new.endswith(f"{page.END}\n\nrest\n")
    assert "outdated" not in new
    for line in (
        "| Once, grouped | 0.040 | 0.040 | 0.040 | 0.040 | 0.040 | 0.13 | – |",
        "| raw transaction | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |",
        "boto3 and a client 1.00, orders 1.30, payments 1.40.",
        "Of 19 goals (`benchmarks/goals.py`) 19 hold.",
    ):
        assert line in new
    again = page.rewritten(new, rows(), IMPORTS, goals_of(rows(), IMPORTS))
    assert again == new


def test_the_page_names_a_missed_goal() -> None:
    goals = [Goal("one", 0.16, 0.17), Goal("two", 1.0, None), Goal("three", 1.0, 1.0)]
    text = page.rewritten(f"{page.BEGIN}{page.END}", [], [], goals)
    assert "Of 3 goals (`benchmarks/goals.py`) 1 hold." in text
    assert "- **Missed:** one: 0.170, and it was to be 0.16 at most." in text
    assert "- **Missed:** two: not measured, and it was to be 1.00 at most." in text


@pytest.mark.parametrize("text", ["# Title", page.BEGIN, page.END, page.BEGIN * 2 + page.END])
def test_a_page_without_a_place_for_them_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needs"):
        page.rewritten(text, [], [], [])


def test_the_projects_page_has_the_place(request: pytest.FixtureRequest) -> None:
    text = (request.config.rootpath / "docs" / "performance.md").read_text()
    assert page.rewritten(text, [], [], []) != text


def test_titles_say_the_setting() -> None:
    titles: list[Any] = [str(setting) for setting in SETTINGS[5:]]
    assert titles[:2] == ["100 records, model", "10 records, 5 ms, 10 % duplicates"]
    assert titles[-1] == "10 records, 5 ms, 100 % redelivered"
