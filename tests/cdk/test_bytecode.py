"""A package carries the bytecode of its sources, for the Python that it runs on."""

import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType

import pytest

from once.cdk import assemble
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.packaging import bytecode as bytecode_module
from once.cdk.packaging.bytecode import TASK, Compiler, add_bytecode, compiler_for, local_python
from once.cdk.packaging.function_package import package
from once.cdk.synth_error import SynthError
from stacks.folders import ROOT
from tests.cdk.packages import EVERY, HERE, tree
from tests.stacks.booking_office import LINES, lines_in, registry_in
from tests.stacks.cloud import new_app

UNCHECKED = (1).to_bytes(4, "little")
"""Flags of bytecode with a source hash that Python does not check."""
HEADER_BYTES = 16
OTHER, NONE = DeploymentConfig(python_runtime="3.99"), DeploymentConfig(python_runtime="3.98")
"""For the Python of the fixture, and for one that does not exist."""


def bytecode_of(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    """The compilers found depend on PATH, which tests change."""
    bytecode_module._find.cache_clear()
    yield
    bytecode_module._find.cache_clear()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only `python3.99` on the PATH; each test writes its content."""
    path = tmp_path / "bin" / f"python{OTHER.python_runtime}"
    path.parent.mkdir()
    path.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


def test_every_module_has_the_bytecode_of_its_own_source() -> None:
    folder = package(*EVERY[0], HERE)
    sources = list(folder.rglob("*.py"))
    assert {bytecode_of(path) for path in sources} == set(folder.rglob("*.pyc"))
    for path in sources:
        header = bytecode_of(path).read_bytes()[:HEADER_BYTES]
        source_hash = importlib.util.source_hash(path.read_bytes())
        assert header == importlib.util.MAGIC_NUMBER + UNCHECKED + source_hash


def test_tracebacks_name_the_place_in_lambda_and_not_this_machine() -> None:
    folder = package(*EVERY[0], HERE)
    for source in folder.rglob("*.py"):
        content = bytecode_of(source).read_bytes()
        names = {code.co_filename for code in codes(marshal.loads(content[HEADER_BYTES:]))}
        assert names == {f"{TASK}/{source.relative_to(folder).as_posix()}"}
        assert str(ROOT).encode() not in content


@pytest.mark.usefixtures("staged", "_without_pip")
def test_a_source_that_changes_in_neither_size_nor_time_is_compiled_again(tmp_path: Path) -> None:
    handler = tmp_path / "probe" / "handler.py"
    handler.parent.mkdir()
    (handler.parent / "__init__.py").touch()
    seen = []
    for value in (1, 2):
        handler.write_text(f"print({value})\n")
        os.utime(handler, (0, 0))
        seen.append(imported(package("probe", handler.parent, (), HERE), "functions.probe.handler"))
    assert seen == ["1\n", "2\n"]


def test_an_import_with_the_same_python_runs_the_bytecode_and_adds_none(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("print(1)\n")
    add_bytecode(tmp_path, HERE)
    (tmp_path / "probe.py").write_text("print(2)\n")
    before = tree(tmp_path)
    assert imported(tmp_path, "probe") == "1\n"
    assert tree(tmp_path) == before


def imported(folder: Path, module: str) -> str:
    """Import a module out of a folder, and return what it prints."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_python_of_this_process_is_found_outside_of_its_virtual_environment() -> None:
    real = str(Path(sys.executable).resolve())
    expected = Compiler(real, str(sys.implementation.cache_tag), sys.version)
    assert compiler_for(HERE) == compiler_for(DeploymentConfig()) == expected
    assert local_python(HERE) == real


def test_another_python_is_found_by_its_name_if_it_has_that_version(program: Path) -> None:
    program.write_text("#!/bin/sh\necho cpython-399 /real/python\necho 3.99.0 of another kind\n")
    found = compiler_for(OTHER)
    assert found == Compiler("/real/python", "cpython-399", "3.99.0 of another kind")
    for script in ("exit 127", "echo cpython-311 /x", "echo pypy399 /x"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        bytecode_module._find.cache_clear()
        assert compiler_for(OTHER) is None


@pytest.mark.usefixtures("staged", "_without_pip")
def test_a_local_package_names_its_python_and_is_refused_without_it(
    program: Path, tmp_path: Path
) -> None:
    program.write_text("#!/bin/sh\necho cpython-399 /bin/true\necho 3.99.0\n")
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "handler.py").touch()
    folder = package("probe", tmp_path / "probe", None, replace(OTHER, local=True))
    assert (folder / ".python").read_text() == "/bin/true"
    with pytest.raises(SynthError, match=r"no Python 3\.98 on this machine; install it so that"):
        package("probe", tmp_path / "probe", None, replace(NONE, local=True))
    assert not (package("probe", tmp_path / "probe", None, NONE) / ".python").exists()


def test_without_its_python_a_package_has_no_bytecode(tmp_path: Path) -> None:
    (tmp_path / "module.py").touch()
    add_bytecode(tmp_path, OTHER)
    assert list(tmp_path.iterdir()) == [tmp_path / "module.py"]


def test_a_compiler_that_is_killed_leaves_no_package(program: Path, tmp_path: Path) -> None:
    program.write_text("#!/bin/sh\ncase $3 in -c) echo cpython-399 $0;; *) kill -9 $$;; esac\n")
    with pytest.raises(SynthError, match=r"python3.99 ended with -9 .*; try again"):
        add_bytecode(tmp_path, OTHER)


def test_another_compiler_or_recipe_gives_another_name(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.write_text("#!/bin/sh\necho cpython-399 $0\necho 3.99.0\n")
    recipes = [bytecode_module.bytecode_recipe(config) for config in (HERE, OTHER, NONE)]
    changed = tmp_path / "recipe.py"
    changed.write_text("# another recipe\n")
    monkeypatch.setattr(bytecode_module, "__file__", str(changed))
    recipes.append(bytecode_module.bytecode_recipe(HERE))
    assert all(recipes.count(recipe) == 1 for recipe in recipes)


def test_synth_warns_once_that_there_is_no_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    other = f"3.{sys.version_info.minor + 1}"
    app = new_app(tmp_path / "out", python_runtime=other)
    assemble(app, registry_in(tmp_path, lines_in(tmp_path / "functions", LINES[::2])))
    app.synth()
    metadata = json.loads((tmp_path / "out" / "once-service.metadata.json").read_text())
    warnings = [
        entry["data"]
        for entries in metadata.values()
        for entry in entries
        if entry["type"] == "aws:cdk:warning"
    ]
    assert len([text for text in warnings if f"no python{other} here" in text]) == 1
