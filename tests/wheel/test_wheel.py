"""Content and metadata of the wheel, its command line, and the wheels of a release."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from once.ops import explain
from once.ops.new.service_files import Tool
from proof.supply_chain import release_wheels
from tests.wheel.conftest import ROOT


@pytest.fixture(scope="session")
def files(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_is_the_whole_library_and_nothing_else(files: list[str]) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "once"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).split()
    found = {name for name in files if ".dist-info/" not in name}
    pages = {f"once/ops/docs/{path}" for path in explain.pages().values()}
    pages |= {f"once/ops/new/examples/{each.example}" for each in Tool if each is not Tool.CDK}
    assert found == {name for name in listed if (ROOT / name).exists()} | pages
    assert found >= {  # files that are read and not imported
        "once/py.typed",
        "once/cdk/packaging/requirements.txt",
        "once/cdk/functions/outbox_relay/handler.py",
        "once/cdk/functions/unrouted/handler.py",
    }


def test_another_build_at_another_time_and_place_gives_the_same_bytes(
    wheel: Path, tmp_path: Path
) -> None:
    copy, built = tmp_path / "copy", tmp_path / "dist"
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "once", "docs", "examples"], cwd=ROOT, text=True
    )
    named = (*listed.strip("\0").split("\0"), "pyproject.toml", "README.md", "LICENSE")
    for name in reversed(named):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    release_wheels._build(copy, built)
    assert (built / wheel.name).read_bytes() == wheel.read_bytes()


def test_every_distribution_is_built_with_its_modules(wheels: dict[str, Path]) -> None:
    assert len(wheels) == len(release_wheels.PROJECTS)
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            files = archive.namelist()
            [about] = [file for file in files if file.endswith("/entry_points.txt")]
            modules = re.findall(r"= ([\w.]+)", archive.read(about).decode())
            assert modules
            for module in modules:
                path = module.replace(".", "/")
                assert {f"{path}.py", f"{path}/__init__.py"} & {*files}
            assert not [file for file in files if "/tests/" in file]
            assert {info.date_time[:3] for info in archive.infolist()} == {(2000, 1, 1)}
