"""The shop's registry: one line and one folder make a consumer. Each check seen failing once."""

from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk import ConsumerProps, DeploymentConfig
from stacks.consumers import CONSUMERS
from stacks.folders import FUNCTIONS
from stacks.registry_checks import registry_faults
from tests.stacks.cloud import CONTEXT

GOOD = ConsumerProps("refunds", external=("order.refunded",))


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    add_folder(tmp_path, GOOD.name)
    return tmp_path


def add_folder(functions: Path, name: str) -> None:
    (functions / name).mkdir()
    (functions / name / "handler.py").touch()


def test_folder_exists_where_a_line_exists_and_only_there() -> None:
    # A fault says which line or which folder to add.
    assert registry_faults(CONSUMERS, DeploymentConfig(parameters=CONTEXT)) == []
    folders = {path.parent.name for path in FUNCTIONS.glob("*/handler.py")}
    assert folders == {line.name for line in CONSUMERS}


def test_a_sound_line_has_no_fault(functions: Path) -> None:
    assert registry_faults((GOOD,), DeploymentConfig(), functions) == []


def test_fault_of_a_line_names_its_file(functions: Path) -> None:
    (fault,) = registry_faults((replace(GOOD, batch_size=0),), DeploymentConfig(), functions)
    assert fault == "consumer 'refunds': batch_size=0; choose 1 to 10000 (stacks/consumers.py)"


def test_fault_of_the_context_names_its_file(functions: Path) -> None:
    (fault,) = registry_faults((GOOD,), DeploymentConfig(dedup_window_days=27), functions)
    assert fault.endswith("raise it to 30, or lower redrives (cdk.json, or -c)")


def test_a_line_without_a_folder_says_which_file_to_add(functions: Path) -> None:
    returns = ConsumerProps("returns", external=("parcel.returned",))
    (fault,) = registry_faults((GOOD, returns), DeploymentConfig(), functions)
    assert fault == (
        f"consumer 'returns': its line has no folder; add {functions.name}/returns/handler.py, or "
        "delete the line (stacks/consumers.py)"
    )


def test_a_folder_without_a_line_says_which_line_to_add(functions: Path) -> None:
    add_folder(functions, "returns")
    (fault,) = registry_faults((GOOD,), DeploymentConfig(), functions)
    assert fault == (
        'functions/returns: its folder has no line; add ConsumerProps("returns", …) to '
        "stacks/consumers.py, or delete the folder"
    )
