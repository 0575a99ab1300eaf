"""The frozen list of call sites: what stands in the source, and what scenarios come to."""

import sys
from pathlib import Path

import pytest

from proof.crashpoints.scenarios import SCENARIOS, Scenario, follow
from proof.crashpoints.sites import (
    EXPLORED,
    LEFT_OUT,
    unlisted_in_runs,
    unlisted_in_source,
)
from proof.crashpoints.source import calls_in_source
from proof.shop.course import Course
from proof.world import calls


@pytest.fixture(scope="module")
def courses() -> dict[str, tuple[Course, set[str]]]:
    """Each scenario's course, and the functions that were under way at its calls."""
    return {scenario.name: traced(scenario) for scenario in SCENARIOS}


def traced(scenario: Scenario) -> tuple[Course, set[str]]:
    under_way: set[str] = set()
    site = calls.site

    def look() -> str:
        frame = sys._getframe(1)
        while frame.f_back is not None:
            under_way.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")
            frame = frame.f_back
        return site()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "site", look)
        return follow(scenario), under_way


def test_every_call_in_the_source_is_listed() -> None:
    assert not unlisted_in_source(calls_in_source())


def test_the_scenarios_come_to_every_listed_site_and_to_no_other(
    courses: dict[str, tuple[Course, set[str]]],
) -> None:
    assert not unlisted_in_runs(place for course, _ in courses.values() for place in course.places)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_is_about_what_it_says(
    scenario: Scenario, courses: dict[str, tuple[Course, set[str]]]
) -> None:
    course, under_way = courses[scenario.name]
    assert course.violation is None
    assert {*course.actions} == {*scenario.actions}
    assert {*scenario.reaches} <= under_way


def test_the_lists_are_sorted_and_name_a_site_once() -> None:
    assert [*EXPLORED] == sorted({*EXPLORED})
    assert [*LEFT_OUT] == sorted(LEFT_OUT)
    assert not {*EXPLORED} & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("client('sqs').purge_queue(QueueUrl='q')", "once.new.call PurgeQueue"),
        ("client('sns').publish(Message='m')", "once.new.call Publish"),
        ("client('dynamodb').get_paginator('scan')", "once.new.call Scan"),
        ("[lambda: client('sqs').list_queues()]", "once.new.call.<locals>.<lambda> ListQueues"),
        ("_client(call).v1.refunds.create(params={})", "once.new.call POST /v1/refunds"),
        ("stripe.Refund.create(charge='c')", "once.new.call stripe.Refund.create"),
        ("requests.get('https://a')", "once.new.call requests.get"),
        ("urllib.request.urlopen('https://a')", "once.new.call urlopen"),
        ("_keys().get('name', max_age=1)", "once.new.call GetSecretValue"),
    ],
)
def test_a_new_call_in_the_source_is_told(tmp_path: Path, line: str, found: str) -> None:
    write(tmp_path, f"def _keys() -> parameters.SecretsProvider: ...\n\ndef call():\n    {line}\n")
    assert calls_in_source(tmp_path) == {found}
    [told, *gone] = unlisted_in_source(calls_in_source(tmp_path))
    assert told.startswith(f"{found} stands in the source and in no list: reach it by a scenario")
    assert len(gone) == len(EXPLORED) + len(LEFT_OUT)
    assert gone[0].endswith("take it out of proof/crashpoints/sites.py")


@pytest.mark.parametrize(
    "line", ["self._publisher.publish(events)", "client('sns')", "requests.Session()", "x.get('a')"]
)
def test_what_calls_nothing_outside_is_not_told(tmp_path: Path, line: str) -> None:
    write(tmp_path, f"def call():\n    {line}\n")
    assert calls_in_source(tmp_path) == set()


def test_a_method_of_stripes_that_is_not_known_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "client.v1.refunds.cancel('r')\n")
    with pytest.raises(ValueError, match=r"refunds\.cancel .* say in _STRIPE"):
        calls_in_source(tmp_path)


def test_a_site_that_is_new_or_never_come_to_is_told() -> None:
    [missed, new] = unlisted_in_runs(["once.new.call sqs.PurgeQueue", *EXPLORED[1:]])
    assert missed.startswith(f"{EXPLORED[0]} is listed, and no scenario comes to it: write one")
    assert new.startswith("once.new.call sqs.PurgeQueue was come to, and is not listed: reach it")


def write(root: Path, text: str) -> None:
    (root / "once").mkdir()
    (root / "once" / "new.py").write_text(text)
