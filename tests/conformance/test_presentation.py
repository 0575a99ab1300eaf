"""The report as text: what it shows, in which order, without control of the terminal."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from redelivery import Difference, Kind, Report
from redelivery.presentation import LIMITS, json_text, print_report, print_scenario, text_of
from tests.conformance.support import DOUBLED, FAILED, IDLE, PASSED, UNTRUSTWORTHY, result

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
        (FAILED, "FAILED: app.handler ends otherwise than in its clean run in 2 of 4 scenarios"),
        (UNTRUSTWORTHY, "NO VERDICT: this run judged its own controls wrongly (get-then-put)"),
        (IDLE, "NO VERDICT: no fault took place in a run of app.handler"),
        (replace(PASSED, controls={}), "NO VERDICT: this run had no controls"),
        (
            replace(IDLE, handler="a" * 90),
            f"NO VERDICT: no fault took place in a run of {'a' * 90}",
        ),
    ],
)
def test_the_last_line_is_the_verdict(report: Report, last: str) -> None:
    assert shown(report).splitlines()[-1] == last


def test_a_row_shows_scenarios_fired_kinds_and_call_sites() -> None:
    cells = {line.split()[0]: line.split()[1:] for line in shown(FAILED).splitlines() if line[:1]}
    assert cells["dies-before"] == ["2", "1", "✓"]
    assert cells["dies-after"] == ["2", "2", "1", "lost,", "2", "doubled", "app.py:12"]
    assert cells["conflicted"] == ["–", "–", "not", "run"]
    assert cells["poison"] == ["1", "0", "never", "took", "place"]


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


def test_every_failing_scenario_is_told_on_request() -> None:
    text = shown(FAILED, every_failure=True)
    assert "Step 9 of dies-after@1.1." in text
    assert "Step 4 of dies-after@1.2." in text


def test_differences_are_listed_by_call_site() -> None:
    part = shown(FAILED).partition("Differences by call site\n")[2].partition("\n\n")[0]
    assert part.splitlines() == [
        "app.py:12",
        "  doubled: orders order_id=o-1, in dies-after@1.2 and 1 more",
        "app.py:14",
        "  lost: message to mails, in dies-after@1.1",
    ]


def test_what_was_not_compared_not_run_or_did_not_take_place_is_listed() -> None:
    lines = shown(FAILED).splitlines()
    for line in (
        "  the handler reads the clock",
        "  orders.stored_at: differs between two clean runs",
        "  conflicted: the handler writes nothing to DynamoDB",
        "  dies-before@1.2, poison@1",
    ):
        assert line in lines


def test_only_a_pass_says_what_it_does_not_mean() -> None:
    words = " ".join(shown(PASSED).split())
    assert all(limit in words for limit in LIMITS)
    assert LIMITS[0] not in " ".join(shown(FAILED).split())


def hostile_everywhere() -> Report:
    difference = Difference(Kind.LOST, HOSTILE, 1, HOSTILE, HOSTILE)
    hurt = result("dies-after@1", difference, site=HOSTILE, remarks=(HOSTILE,))
    return replace(
        UNTRUSTWORTHY,
        handler=HOSTILE,
        results=(replace(hurt, scenario=HOSTILE, course=(HOSTILE,)),),
        ignored={HOSTILE: HOSTILE},
        not_run=dict.fromkeys(UNTRUSTWORTHY.not_run, HOSTILE),
        controls={HOSTILE: False},
    )


@pytest.mark.parametrize(
    "render",
    [
        shown,
        lambda report: text_of(lambda console: print_scenario(report.results[0], console)),
        json_text,
    ],
)
def test_texts_of_the_handler_do_not_control_the_terminal(
    render: Callable[[Report], str],
) -> None:
    text = render(hostile_everywhere())
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[bold]" in text
    assert ":warning:" in text
