"""Packages that are unpacked once, and the state of mappings that a template disables."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipInfo

import pytest

from emulator.server import PackageFile, tell_disabled_mappings


def zip_file(folder: Path, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "code.zip"
    with PackageFile(file, "w") as package:
        # A ZipInfo has a fixed date: packages of equal files are equal at any time.
        package.writestr(ZipInfo("handler.py"), content)
        package.writestr(ZipInfo("own/module.py"), content)
        package.writestr(ZipInfo("common/part/module.py"), "b = 1")
    return file


def unpack(file: Path, target: Path) -> Path:
    target.mkdir()
    with PackageFile(file) as package:
        package.extractall(target)
    return target


def test_processes_of_one_package_share_it_and_packages_share_common_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    homes = [tmp_path / f"ministack-lambda-orders-{n}" for n in range(3)]
    contents = ["a = 1", "a = 1", "a = 2"]
    found = [
        unpack(zip_file(home, content), home / "code")
        for home, content in zip(homes, contents, strict=True)
    ]
    assert [(code / "handler.py").read_text() for code in found] == contents
    assert [(code / "own" / "module.py").read_text() for code in found] == contents
    assert found[0].resolve() == found[1].resolve() != found[2].resolve()
    common = [code / "common" / "part" / "module.py" for code in found]
    assert common[2].read_text() == "b = 1"
    assert common[1].resolve() == common[2].resolve()


def test_other_files_are_unpacked_as_usual(tmp_path: Path) -> None:
    target = unpack(zip_file(tmp_path / "layer", "a = 1"), tmp_path / "layer_0")
    assert not target.is_symlink()
    assert (target / "handler.py").read_text() == "a = 1"


def test_a_mapping_that_a_template_disables_says_so() -> None:
    module = SimpleNamespace(_esm_response=lambda mapping: {"State": mapping["State"]})
    tell_disabled_mappings(module)
    stored = {"State": "Enabled", "Enabled": False}  # as MiniStack's CloudFormation stores it
    assert module._esm_response(stored) == {"State": "Disabled"}
    assert module._esm_response({"State": "Enabled"}) == {"State": "Enabled"}
