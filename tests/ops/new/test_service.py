"""`once new service`: into an empty folder only. The wheel's tests run what it writes."""

import json
from pathlib import Path

import pytest

from tests.ops.output import stderr_of, stdout_of
from tests.stacks.cloud import CONTEXT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_services_app_has_the_flags_of_the_cdk_that_this_project_has(folder: Path) -> None:
    (folder / ".git").mkdir()
    stdout_of("new", "service", "box-office")
    context = json.loads((folder / "cdk.json").read_text())["context"]
    assert context["service"] == "box-office"
    flags = {name: value for name, value in CONTEXT.items() if name.startswith("@aws-cdk")}
    assert {n: v for n, v in context.items() if n.startswith("@aws-cdk")} == flags
    assert json.loads((folder / "deployed.json").read_text()) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Box Office"], "cannot be a service's name"),
        (["shop", "--consumer", "a-b"], "cannot be a consumer's name"),
    ],
)
def test_a_bad_name_writes_nothing(folder: Path, arguments: list[str], said: str) -> None:
    assert said in stderr_of("new", "service", *arguments)
    assert [*folder.iterdir()] == []


def test_a_folder_with_files_is_left_alone(folder: Path) -> None:
    (folder / "mine").write_text("")
    assert "is not empty (mine)" in stderr_of("new", "service", "shop")
    assert [path.name for path in folder.iterdir()] == ["mine"]
