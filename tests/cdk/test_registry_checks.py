"""Checks of the whole registry and deployment, each seen failing once with its remedy."""

from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk.checks.registry import faults_of
from once.cdk.config import Config
from once.cdk.props import Consumer, Table
from once.schema import RELAY, UNROUTED

GOOD = Consumer("refunds", external=("order.refunded",), tables=(Table("refunds", "order_id"),))


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    add_folder(tmp_path, GOOD.name)
    add_folder(tmp_path, RELAY)
    add_folder(tmp_path, UNROUTED)
    return tmp_path


def add_folder(functions: Path, name: str) -> None:
    (functions / name).mkdir()
    (functions / name / "handler.py").touch()


def test_a_sound_line_has_no_fault(functions: Path) -> None:
    assert faults_of((GOOD,), Config(), functions) == []


def test_fault_of_a_line_names_the_line_and_its_file(functions: Path) -> None:
    (fault,) = faults_of((replace(GOOD, max_concurrency=1),), Config(), functions)
    assert fault == "refunds: max_concurrency=1; choose 2 to 1000 (stacks/consumers.py)"


def test_two_lines_of_one_name_are_refused(functions: Path) -> None:
    (fault,) = faults_of((GOOD, GOOD), Config(), functions)
    assert fault == "refunds: 2 lines have this name; rename all but one (stacks/consumers.py)"


def test_one_table_with_two_keys_is_refused(functions: Path) -> None:
    add_folder(functions, "returns")
    other = replace(GOOD, name="returns", tables=(Table("refunds", ("order_id", "line")),))
    (fault,) = faults_of((GOOD, other), Config(), functions)
    assert "table 'refunds' has the keys ('order_id',) and ('order_id', 'line')" in fault
    assert "declare it once and share it" in fault


def test_one_table_declared_twice_alike_is_one_table(functions: Path) -> None:
    add_folder(functions, "returns")
    other = replace(GOOD, name="returns", tables=(Table("refunds", ("order_id",)),))
    assert faults_of((GOOD, other), Config(), functions) == []


def test_a_line_without_a_folder_says_which_file_to_add(functions: Path) -> None:
    fault = faults_of((GOOD, replace(GOOD, name="returns")), Config(), functions)[0]
    assert fault.startswith("returns: its line has no folder; add ")
    assert "/returns/handler.py, or delete the line" in fault


def test_a_folder_without_a_line_says_which_line_to_add(functions: Path) -> None:
    add_folder(functions, "returns")
    (fault,) = faults_of((GOOD,), Config(), functions)
    assert fault == (
        'functions/returns: its folder has no line; add Consumer("returns", …) to '
        "stacks/consumers.py, or delete the folder"
    )


def test_the_relays_folder_is_missed_and_needs_no_line(functions: Path) -> None:
    (functions / RELAY / "handler.py").unlink()
    (fault,) = faults_of((GOOD,), Config(), functions)
    assert fault == (
        "functions/outbox_relay/handler.py is missing, and nothing would be published; put it back"
    )


def test_the_folder_of_unrouted_events_is_missed_and_needs_no_line(functions: Path) -> None:
    (functions / UNROUTED / "handler.py").unlink()
    (fault,) = faults_of((GOOD,), Config(), functions)
    assert fault == (
        "functions/unrouted/handler.py is missing, and events that no consumer subscribes to would "
        "be lost; put it back"
    )


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (Config(dedup_window_days=27), "raise it to 30, or lower redrives (cdk.json)"),
        (Config(redrives=3), "raise it to 74, or lower redrives (cdk.json)"),
        (Config(provider_retry_days=46), "raise it to 46 (cdk.json)"),
    ],
    ids=["a redrive", "more redrives", "a provider"],
)
def test_a_window_shorter_than_a_message_lives_is_refused(
    config: Config, fault: str, functions: Path
) -> None:
    (found,) = faults_of((GOOD,), config, functions)
    assert found.startswith("dedup_window_days=")
    assert found.endswith(fault)


def test_a_window_as_long_as_a_message_lives_is_allowed(functions: Path) -> None:
    config = Config(dedup_window_days=52, redrives=2, provider_retry_days=52)
    assert faults_of((GOOD,), config, functions) == []


def test_an_event_that_no_consumer_publishes_is_refused(functions: Path) -> None:
    line = replace(GOOD, events=("stock.reserved",))
    (fault,) = faults_of((line,), Config(), functions)
    assert fault == (
        "refunds: events has 'stock.reserved', which no consumer publishes; declare it external= "
        "if producers publish it, or add it to publishes= of its publisher (stacks/consumers.py)"
    )


def test_an_external_type_that_a_consumer_publishes_is_refused(functions: Path) -> None:
    add_folder(functions, "returns")
    other = Consumer("returns", external=("parcel.returned",), publishes=("order.refunded",))
    (fault,) = faults_of((GOOD, other), Config(), functions)
    assert fault == (
        "refunds: external has 'order.refunded', which returns publishes, so that a producer could "
        "forge it; move it to events, or have producers publish another type (stacks/consumers.py)"
    )


def test_an_event_of_another_consumer_is_sound(functions: Path) -> None:
    add_folder(functions, "returns")
    other = Consumer("returns", external=("parcel.returned",), publishes=("parcel.checked",))
    line = replace(GOOD, events=("parcel.checked",))
    assert faults_of((line, other), Config(), functions) == []


def test_types_that_are_one_text_are_one_fault(functions: Path) -> None:
    (fault,) = faults_of((replace(GOOD, events="parcel.checked"),), Config(), functions)  # type: ignore[arg-type]
    assert "give a tuple of types" in fault
