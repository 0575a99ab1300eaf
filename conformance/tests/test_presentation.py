"""The report as text: what it shows, in which order, without control of the terminal."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from redelivery import Difference, Kind, Report
from redelivery.formats import FORMATS
from redelivery.presentation import print_report, print_scenario, text_of

from .support import DOUBLED, FAILED, IDLE, LOST, PASSED, result

COMMAND = f"redelivery check app.handler {'--event events/order.json ' * 4}--replay"
HOSTILE = "\x7f\x1b[31mred\x1b[0m\x07 \x9b2J [bold]not markup[/bold] :warning: ‮ \ud800\nnext"


def shown(report: Report, *, every_failure: bool = False, width: int = 80) -> str:
    def repeat(scenario: str) -> str:
        return f"{COMMAND} {scenario}"

    return text_of(
        lambda console: print_report(report, console, repeat=repeat, every_failure=every_failure),
        width=width,
    )


@pytest.mark.parametrize(
    ("report", "last"),
    [
        (PASSED, "PASSED: app.handler ends as in its clean run in each of 2 scenarios of 2 faults"),
        (
            FAILED,
            "FAILED: app.handler ends otherwise than in its clean run in 2 of 4 scenarios; "
            "severity: lost",
        ),
        (IDLE, "NO VERDICT: no fault took place in a run of app.handler"),
        (
            replace(IDLE, handler="a" * 90),
            f"NO VERDICT: no fault took place in a run of {'a' * 90}",
        ),
    ],
)
def test_the_last_line_is_the_verdict(report: Report, last: str) -> None:
    assert shown(report).splitlines()[-1] == last


def test_the_shortest_failing_scenario_of_a_kind_and_place_is_told_with_its_command() -> None:
    text = shown(FAILED)
    assert "1 Step 1 of dies-after@1.2." in text  # doubled, in fewer steps than in dies-after@1.1
    assert "Step 1 of dies-after@1.1." in text  # lost
    by_the_sdk = result("answer-lost-retried@1.2", DOUBLED, steps=2)
    text = shown(replace(FAILED, results=(*FAILED.results[:3], FAILED.results[4], by_the_sdk)))
    assert "Step 1 of dies-after@1.2." in text
    assert "Step 1 of answer-lost-retried" not in text
    assert "doubled × 2: orders order_id=o-1 (app.py:12): expected total 5, found 10" in text
    assert f"    {COMMAND} dies-after@1.2" in text.splitlines()
    assert "Step 9 of dies-after@1.1." in shown(FAILED, every_failure=True)


def test_a_pass_names_its_limits_and_a_failure_its_severity() -> None:
    assert "What a pass does not mean" in shown(PASSED)
    assert "What a pass does not mean" not in shown(FAILED)
    beside = Difference(Kind.DEAD_LETTERED, "m1")
    poison, refused = result("poison@first", beside), result("refused@1.1", beside)
    doubled = result("redriven@1", DOUBLED)
    for results, severity in (
        ((poison,), "poison policy"),
        ((poison, refused), "dead-lettered"),
        ((poison, refused, doubled), "doubled"),
        ((doubled, result("redriven@2", LOST)), "lost"),
    ):
        report = replace(FAILED, results=results)
        assert shown(report).endswith(f"; severity: {severity}")
        assert report.shortest[0].differences[0].kind in {severity, Kind.DEAD_LETTERED}


# Reports for programs.


def test_annotations_stand_at_the_lines_of_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # of no repository
    late = Difference(Kind.STUCK, "m1", detail="100% still\nin the queue")
    text = FORMATS["github"](
        [replace(FAILED, results=(*FAILED.results, result("refused@1", late)))]
    )
    assert text.splitlines() == [
        "::error file=app.py,line=14,title=redelivery lost::message to mails:  (dies-after@1.1)",
        "::error file=app.py,line=12,title=redelivery doubled::orders order_id=o-1: "
        "expected total 5, found 10 (dies-after@1.2)",
        "::warning title=redelivery stuck::m1: 100%25 still%0Ain the queue (refused@1)",
        "::error::FAILED: app.handler ends otherwise than in its clean run in 3 of 5 scenarios; "
        "severity: lost",
    ]
    assert FORMATS["github"]([IDLE]).startswith("::error::NO VERDICT")


def test_junit_has_a_case_for_each_fault() -> None:
    [suite] = ET.fromstring(FORMATS["junit"]([FAILED]))
    cases = {case.attrib["name"]: [child.tag for child in case] for case in suite}
    assert cases == {
        "dies-before": [],
        "dies-after": ["failure"],
        "conflicted": ["skipped"],
        "redriven": [],
        "poison": ["skipped"],
    }
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "0", "skipped": "2"}
    [suite] = ET.fromstring(FORMATS["junit"]([IDLE]))
    assert suite.attrib["errors"] == suite.attrib["tests"]


def test_sarif_has_a_result_for_each_kind_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # of no repository
    content = json.loads(FORMATS["sarif"]([FAILED, FAILED]))
    [run] = content["runs"]
    places = [
        (each["ruleId"], each["level"], each["locations"][0]["physicalLocation"])
        for each in run["results"][:2]
    ]
    assert len(run["results"]) == 4
    assert places == [
        (
            "dies-after",
            "error",
            {"artifactLocation": {"uri": "app.py"}, "region": {"startLine": line}},
        )
        for line in (14, 12)
    ]
    assert {each["ruleId"] for each in run["results"]} <= {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }


def hostile_everywhere() -> Report:
    difference = Difference(Kind.LOST, HOSTILE, 1, HOSTILE, HOSTILE)
    hurt = result("dies-after@1", difference, site=HOSTILE, remarks=(HOSTILE,))
    return replace(
        FAILED,
        handler=HOSTILE,
        results=(replace(hurt, scenario=HOSTILE, course=(HOSTILE,)),),
        ignored={HOSTILE: HOSTILE},
        not_run=dict.fromkeys(FAILED.not_run, HOSTILE),
    )


@pytest.mark.parametrize(
    "render",
    [
        shown,
        lambda report: text_of(lambda console: print_scenario(report.results[0], console)),
        *(lambda report, form=form: form([report]) for form in FORMATS.values()),
    ],
)
def test_texts_of_the_handler_do_not_control_the_terminal(
    render: Callable[[Report], str],
) -> None:
    text = render(hostile_everywhere())
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[bold]" in text
    assert ":warning:" in text


def test_steps_that_come_again_are_told_once() -> None:
    again = ["SQS delivers m1 to process {}", "the handler raises KeyError", "again"]
    steps = [step.format(n) for n in range(5) for step in again]
    told = replace(result("redriven"), course=("begin", *steps, "end"))
    text = text_of(lambda console: print_scenario(told, console))
    assert text.count("the handler raises KeyError") == 1
    assert "(these 3 steps come 4 times more)" in text
    assert "  17 end" in text


def test_a_place_is_named_from_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "service").mkdir()
    monkeypatch.chdir(tmp_path / "service")
    report = replace(FAILED, root=tmp_path / "service" / "src")
    assert "file=service/src/app.py,line=12" in FORMATS["github"]([report])
    assert '"uri": "service/src/app.py"' in FORMATS["sarif"]([report])
