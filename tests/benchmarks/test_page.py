"""The page and the chart show the figures of a run."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks import page
from benchmarks.contenders import (
    CONTENDERS,
    GROUPED,
)
from benchmarks.goals import Goal, goals_of
from benchmarks.rows import Row
from tests.benchmarks.sample_rows import IMPORTS, rows


def drawn(found: list[Row]) -> tuple[ET.Element, list[ET.Element], list[str | None]]:
    """Return the chart, its bars and its texts."""
    tree = ET.fromstring(page.svg(found))
    bars, texts = (tree.findall(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("rect", "text"))
    return tree, bars, [text.text for text in texts]


def test_the_chart_has_a_bar_for_each_contender_and_panel() -> None:
    tree, bars, texts = drawn(rows())
    assert len(bars) == len(page.PANELS) * len(CONTENDERS)
    assert texts.count(GROUPED) == len(page.PANELS)
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
