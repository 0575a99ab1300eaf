"""Every synth check, seen failing once with its remedy, and silent where all is well."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from once.settings import Settings
from stacks.checks import MARGIN_SECONDS, faults_of
from stacks.config import Config
from stacks.registry import Consumer, Table

GOOD = Consumer("refunds", events=("order.refunded",), tables=(Table("refunds", "order_id"),))


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    add_folder(tmp_path, GOOD.name)
    return tmp_path


def add_folder(functions: Path, name: str) -> None:
    (functions / name).mkdir()
    (functions / name / "handler.py").touch()


def only_fault(consumer: Consumer, functions: Path) -> str:
    (fault,) = faults_of((consumer,), Config(), functions)
    return fault


def test_a_sound_line_has_no_fault(functions: Path) -> None:
    assert faults_of((GOOD,), Config(), functions) == []


@pytest.mark.parametrize(
    ("change", "culprit", "remedy"),
    [
        ({"events": ()}, "events=()", "give a tuple of types"),
        ({"events": "order.placed"}, "events='order.placed'", "give a tuple of types"),
        ({"events": ("a,b",)}, "'a,b'", "without commas"),
        ({"events": (" ",)}, "' '", "give one without commas"),
        ({"tables": (Table("Refunds", "id"),)}, "'Refunds'", "use lower-case letters"),
        ({"tables": (Table("refunds", ()),)}, "key ()", "name the partition key"),
        ({"tables": (Table("refunds", ("a", "b", "c")),)}, "('a', 'b', 'c')", "give a pair of"),
        ({"tables": (Table("refunds", ("a", "a")),)}, "('a', 'a')", "give a pair of"),
        ({"timeout_seconds": 5}, "timeout_seconds=5", "choose 6 to 900"),
        ({"timeout_seconds": 901}, "timeout_seconds=901", "choose 6 to 900"),
        ({"effect_timeout_seconds": 30}, "effect_timeout_seconds=30", "raise it above 30"),
        ({"visibility_seconds": 179}, "visibility_seconds=179", "= 180, or leave it out"),
        (
            {"visibility_seconds": 180, "batch_window_seconds": 5},
            "visibility_seconds=180",
            "6 × timeout + batch window = 185",
        ),
        ({"visibility_seconds": 43_201}, "43201 s", "lower visibility_seconds"),
        ({"batch_size": 0}, "batch_size=0", "choose 1 to 10000"),
        ({"batch_size": 10_001, "batch_window_seconds": 1}, "batch_size=10001", "choose 1 to"),
        ({"batch_size": 11}, "batch_size=11", "set batch_window_seconds to 1 or more"),
        ({"batch_window_seconds": 301}, "batch_window_seconds=301", "choose 0 to 300"),
        ({"max_concurrency": 1}, "max_concurrency=1", "choose 2 to 1000"),
        ({"max_concurrency": 1001}, "max_concurrency=1001", "choose 2 to 1000"),
        ({"max_receive_count": 4}, "max_receive_count=4", "raise it to 5"),
        ({"memory_mb": 127}, "memory_mb=127", "choose 128 to 10240"),
    ],
    ids=str,
)
def test_fault_of_a_line_names_line_culprit_and_remedy(
    change: dict[str, Any], culprit: str, remedy: str, functions: Path
) -> None:
    fault = only_fault(replace(GOOD, **change), functions)
    assert fault.startswith("refunds: ")
    assert culprit in fault
    assert remedy in fault
    assert fault.endswith("(stacks/consumers.py)")


@pytest.mark.parametrize(
    "change",
    [
        {"timeout_seconds": 6},
        {"timeout_seconds": 900},
        {"effect_timeout_seconds": 29},
        {"visibility_seconds": 180},
        {"visibility_seconds": 43_200},
        {"batch_size": 10},
        {"batch_size": 10_000, "batch_window_seconds": 1},
        {"batch_window_seconds": 300},
        {"max_concurrency": 2},
        {"max_concurrency": 1000},
        {"max_receive_count": 5},
        {"tables": (Table("refunds", ("order_id", "line")),)},
    ],
    ids=str,
)
def test_limits_themselves_are_allowed(change: dict[str, Any], functions: Path) -> None:
    assert faults_of((replace(GOOD, **change),), Config(), functions) == []


@pytest.mark.parametrize("name", ["", "Refunds", "re-funds", "2refunds", "r" * 41])
def test_a_name_that_cannot_be_a_consumers_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    add_folder(tmp_path, folder.name)
    fault = faults_of((replace(GOOD, name=name, folder=folder),), Config(), tmp_path / "none")[0]
    assert f"the name {name!r}" in fault
    assert "use at most 40 lower-case letters" in fault


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


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (Config(dedup_window_days=27), "raise it to 28, or lower redrives (cdk.json)"),
        (Config(redrives=2), "raise it to 42, or lower redrives (cdk.json)"),
        (Config(provider_retry_days=31), "raise it to 31 (cdk.json)"),
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
    config = Config(dedup_window_days=42, redrives=2, provider_retry_days=42)
    assert faults_of((GOOD,), config, functions) == []


def test_the_margin_is_the_one_that_the_function_keeps() -> None:
    defaults = {name: field.default for name, field in Settings.__dataclass_fields__.items()}
    assert defaults["time_margin_ms"] == MARGIN_SECONDS * 1000
