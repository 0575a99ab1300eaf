import json
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from benchmarks import chart, page, report
from benchmarks.contenders import (
    CONTENDERS,
    GROUPED,
    GROUPED_THREADS,
    ITEM,
    ITEM_GROUPED,
    POWERTOOLS,
    RAW,
    UNGROUPED,
)
from benchmarks.dynamodb import Counts
from benchmarks.goals import Goal, goals_of
from benchmarks.matrix import Setting
from benchmarks.measure import Sample
from benchmarks.rows import EMBEDDED, Row, rows_of
from benchmarks.webhooks.functions import INGRESS, PUT
from benchmarks.webhooks.measure import Timing, WebhookSample
from benchmarks.webhooks.requests import Kind
from benchmarks.webhooks.rows import webhook_rows

KEYS = {
    *("contender", "records", "delay_ms", "duplicates", "conflicts"),
    *("wall_us", "cpu_us", "requests", "write_units", "vs_raw", "vs_powertools"),
    *("cpu_vs_raw", "write_units_vs_raw", "write_units_least"),
}
NOT_IN_EMBEDDED = (
    *("cpu_us", "requests", "write_units", "write_units_least", "read_units"),
    *("cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw"),
)
IN_EMBEDDED = {
    "vs_nothing": 4.0,
    "vs_powertools": 1.0,
    "sender_cpu_us": 100.0,
    "aws_cpu_us": 2000.0,
    "function_cpu_us": 1000.0,
}
GROUPED_EMBEDDED = {"contender": GROUPED_THREADS, "vs_nothing": 1.1}
SETTINGS = (
    *(Setting(records=n, delay_ms=ms) for n in (10, 100) for ms in (0, 5, "model")),
    *(Setting(records=n, delay_ms=5, duplicates=0.1) for n in (10, 100)),
    *(Setting(records=n, delay_ms=5, conflicts=0.05) for n in (10, 100)),
    Setting(records=10, delay_ms=5, duplicates=1.0, redelivered=True),
)
IMPORTS: list[Row] = [
    {"contender": name, "bytecode": True, "cpu_ms": 1.0, "modules": 1, "vs_boto3": ratio}
    for name, ratio in (
        ("boto3 and a client", 1.0),
        ("orders", 1.3),
        ("payments", 1.4),
        ("webhooks", 1.2),
    )
]


def taken(wall: float, units: float = 4, requests: float = 1) -> Sample:
    return Sample(wall, wall / 10 + 10, requests, units, min(units, 4), 0)


def rows(grouped_wall: float = 40, grouped_units: float = 4) -> list[Row]:
    """Return the rows of a run that reaches every goal, apart from the given figures."""
    samples = {c.name: [taken(1000)] for c in CONTENDERS}
    grouped = [taken(grouped_wall, grouped_units, requests=0.1)]
    samples |= {GROUPED: grouped, GROUPED_THREADS: grouped, ITEM: [taken(1000, units=1)]}
    samples[POWERTOOLS] = [taken(3000, units=3, requests=3)]
    samples[ITEM_GROUPED] = [taken(40, units=2, requests=0.1)]
    found = [row for setting in SETTINGS for row in rows_of(setting, samples)]
    end_to_end = {"delay_ms": EMBEDDED, **dict.fromkeys(NOT_IN_EMBEDDED), **IN_EMBEDDED}
    embedded = [{**found[3], **end_to_end}, {**found[0], **end_to_end, **GROUPED_EMBEDDED}]
    return [*found, *(row for delay in (0, 5, EMBEDDED) for row in webhooks(delay)), *embedded]


def webhooks(delay_ms: float | str, *, wall: float = 1.05, forged_cpu: float = 10) -> list[Row]:
    """Return the rows of webhooks with one delay; the ingress takes `wall` times the wall time."""
    cpus = {Kind.GENUINE: 1000.0, Kind.DUPLICATE: 1000.0, Kind.FORGED: forged_cpu}
    samples = [
        WebhookSample(name, kind, delay_ms, [Timing(5000 * factor, cpu)] * 3, Counts(1, 4, 4))
        for name, factor in ((PUT, 1.0), (INGRESS, wall))
        for kind, cpu in cpus.items()
    ]
    return webhook_rows(samples)


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


def drawn(found: list[Row]) -> tuple[ET.Element, list[ET.Element], list[str | None]]:
    """Return the chart, its bars and its texts."""
    tree = ET.fromstring(chart.svg(found))
    bars, texts = (tree.findall(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("rect", "text"))
    return tree, bars, [text.text for text in texts]


def test_the_chart_has_a_bar_for_each_contender_and_panel() -> None:
    tree, bars, texts = drawn(rows())
    assert len(bars) == len(chart.PANELS) * len(CONTENDERS)
    assert texts.count(GROUPED) == len(chart.PANELS)
    assert "0.040" in texts
    limit = float(tree.attrib["viewBox"].split()[2]) - 40
    assert all(float(bar.attrib["x"]) + float(bar.attrib["width"]) < limit for bar in bars)


def test_each_panel_of_the_chart_shows_its_own_delay() -> None:
    found = [row | {"vs_raw": {5: 0.25, "model": 0.5}.get(row["delay_ms"], 9.0)} for row in rows()]
    _, _, texts = drawn(found)
    shown = [text for text in texts if text in {"0.25", "0.50", "9.00"}]
    assert shown == ["0.25"] * len(CONTENDERS) + ["0.50"] * len(CONTENDERS)


def test_the_chart_escapes_names() -> None:
    _, _, texts = drawn([{**row, "contender": "<&>"} for row in rows()])
    assert "<&>" in texts


def test_the_page_gets_the_figures_of_the_run_and_keeps_its_text() -> None:
    old = f"# Title\n\n{page.BEGIN}\noutdated\n{page.END}\n\nrest\n"
    new = page.rewritten(old, rows(), IMPORTS, goals_of(rows(), IMPORTS))
    assert new.startswith("# Title\n\n")
    assert new.endswith(f"{page.END}\n\nrest\n")
    assert "outdated" not in new
    for line in (
        "| Once, grouped | 0.040 | 0.040 | 0.040 | 0.040 | 0.040 | 0.13 | – |",
        "| raw transaction | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |",
        "| Once, 4 threads | 0.91 | 1,000 | 100 | 2,000 | 1,000 |",
        "boto3 and a client 1.00, orders 1.30, payments 1.40, webhooks 1.20.",
        "| webhook ingress, forged | 1.05 | 1.05 | – | 1.05 | 5,250 | 5,250 |",
        "Of 30 goals (`benchmarks/goals.py`) 30 hold.",
    ):
        assert line in new
    assert page.rewritten(new, rows(), IMPORTS, goals_of(rows(), IMPORTS)) == new


def test_the_page_names_a_missed_goal() -> None:
    goals = [Goal("one", 0.16, 0.17), Goal("two", 1.0, None), Goal("three", 1.0, 1.0)]
    text = page.rewritten(f"{page.BEGIN}{page.END}", [], [], goals)
    assert "Of 3 goals (`benchmarks/goals.py`) 1 hold." in text
    assert "- **Missed:** one: 0.170; the goal is at most 0.16." in text
    assert "- **Missed:** two: not measured; the goal is at most 1.00." in text


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
