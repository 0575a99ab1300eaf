"""`once new service`: into an empty folder only. The wheel's tests run what it writes."""

import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from once.ops.new import service_files
from tests.ops.support import stderr_of, stdout_of
from tests.stacks.cloud import CONTEXT

WHEEL = f"once_consumer-{version('once-consumer')}-py3-none-any.whl"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "service").mkdir()
    monkeypatch.chdir(tmp_path / "service")
    return tmp_path / "service"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with wheels of three distributions and of two versions."""
    found = tmp_path / "my dist"
    found.mkdir()
    for name in (WHEEL, "once_consumer-0.0.9-py3-none-any.whl", "once_local-0.1.0.whl"):
        (found / name).write_text(name)
    return found


def installed_from(monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    """Let the library be installed from this URL; None for a package index."""
    origin = None if url is None else json.dumps({"url": url})
    recorded = SimpleNamespace(read_text={"direct_url.json": origin}.get)
    monkeypatch.setattr(service_files, "distribution", lambda name: recorded)


def vendored(folder: Path) -> list[str]:
    return [each.read_text() for each in folder.glob("vendor/*")]


def test_the_wheel_that_the_library_was_installed_from_is_copied(
    folder: Path, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, (dist / WHEEL).as_uri())
    stdout_of("new", "service", "shop")
    assert vendored(folder) == [WHEEL]
    assert "`vendor/` holds the wheel" in (folder / "README.md").read_text()


def test_with_a_release_from_an_index_there_is_no_wheel(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, None)
    stdout_of("new", "service", "shop")
    assert not (folder / "vendor").exists()
    assert "vendor" not in (folder / "README.md").read_text()


def test_without_its_wheel_nothing_is_written_and_the_error_says_how_to_make_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (
        "file:///src/once",  # a checkout
        "file:///gone/once_consumer-0.1.0.whl",
        "https://example.com/once.whl",
    ):
        installed_from(monkeypatch, url)
        shown = stderr_of("new", "service", "shop")
        assert url.removeprefix("file://") in shown
        assert "run `make wheels` in a checkout of its repository, and give --wheels" in shown
    assert "has no once_consumer-" in stderr_of("new", "service", "shop", "--wheels", ".")
    assert [*folder.iterdir()] == []


def test_the_services_app_has_the_flags_of_the_cdk_that_this_project_has(
    folder: Path, dist: Path
) -> None:
    (folder / ".git").mkdir()
    stdout_of("new", "service", "box-office", "--wheels", str(dist))
    assert vendored(folder) == [WHEEL]
    context = json.loads((folder / "cdk.json").read_text())["context"]
    assert context["service"] == "box-office"
    flags = {name: value for name, value in CONTEXT.items() if name.startswith("@aws-cdk")}
    assert {n: v for n, v in context.items() if n.startswith("@aws-cdk")} == flags
    assert json.loads((folder / "deployed.json").read_text()) == {}


def test_a_bad_name_or_a_folder_with_files_writes_nothing(folder: Path, dist: Path) -> None:
    given = ("--wheels", str(dist))
    assert "cannot be a service's name" in stderr_of("new", "service", "Box Office", *given)
    bad = stderr_of("new", "service", "shop", "--consumer", "a-b", *given)
    assert "cannot be a consumer's name" in bad
    assert [*folder.iterdir()] == []
    (folder / "mine").write_text("")
    assert "is not empty (mine)" in stderr_of("new", "service", "shop")
    assert [path.name for path in folder.iterdir()] == ["mine"]
