"""What a function's package holds, and that it works with nothing else on the path."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from stacks import package as package_module
from stacks import wheels as wheels_module
from stacks.config import Config
from stacks.consumers import CONSUMERS
from stacks.errors import SynthError
from stacks.package import locks_of, package
from stacks.registry import FUNCTIONS, ROOT, Consumer
from stacks.wheels import AWS_SERVICES, site
from tests.stacks.cloud import Cloud, environment

LOCK = FUNCTIONS / "requirements.txt"
HERE = Config(local=True)
AARCH64 = 183
"""The machine's number in an ELF header."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(params=[Config(), HERE], ids=["aws", "local"])
def config(request: pytest.FixtureRequest) -> Config:
    found: Config = request.param
    return found


def test_package_is_wheels_library_and_its_own_folder(consumer: Consumer, config: Config) -> None:
    folder = package(consumer, config)
    assert names(folder) == names(site([LOCK], config)) | {"once", "functions"}
    assert names(folder / "functions") == {"__init__.py", consumer.name}
    assert tree(folder / "functions" / consumer.name) == {
        name: content
        for name, content in tree(consumer.source).items()
        if "__pycache__" not in name
    }


def test_library_comes_without_its_testing_part(consumer: Consumer, config: Config) -> None:
    folder = package(consumer, config) / "once"
    modules = {path.name for path in (ROOT / "once").glob("*.py")}
    assert modules <= names(folder)
    assert "testing" not in names(folder)


def test_wheels_are_those_of_the_lock(config: Config) -> None:
    locked = re.findall(r"^([a-z0-9-]+)==([^ ]+)", LOCK.read_text(), re.MULTILINE)
    found = {path.name.lower() for path in site([LOCK], config).glob("*.dist-info")}
    assert found == {f"{name.replace('-', '_')}-{version}.dist-info" for name, version in locked}


def test_package_is_trimmed(consumer: Consumer, config: Config) -> None:
    folder = package(consumer, config)
    assert "bin" not in names(folder)
    assert not list(folder.rglob("__pycache__"))
    assert not list(folder.glob("*.dist-info/RECORD"))
    models = {path.name for path in (folder / "botocore" / "data").iterdir() if path.is_dir()}
    assert models == AWS_SERVICES
    assert sum(len(content) for content in tree(folder).values()) < 15_000_000


def test_aws_gets_binaries_for_arm(consumer: Consumer) -> None:
    libraries = list(package(consumer, Config()).rglob("*.so"))
    assert libraries
    for library in libraries:
        assert int.from_bytes(library.read_bytes()[18:20], "little") == AARCH64


def test_everybody_may_read_the_package_whatever_the_umask(
    consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_module, "STAGED", tmp_path / "build")
    monkeypatch.setattr(wheels_module, "SITES", tmp_path / "site")
    monkeypatch.setattr(wheels_module, "_fill", lambda folder, *_: (folder / "six.py").touch())
    before = os.umask(0o077)
    try:
        folder = package(consumer, HERE)
    finally:
        os.umask(before)
    assert (folder / "six.py").exists()
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def import_handler(path: Path, name: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Import a handler as Lambda does, with `path` and the standard library only."""
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import functions.{name}.handler"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code],
        env={"AWS_LAMBDA_FUNCTION_NAME": name, "AWS_DEFAULT_REGION": "eu-west-1", **env},
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=False,
    )


def test_handler_loads_from_its_package_alone(local_cloud: Cloud, consumer: Consumer) -> None:
    env = environment(local_cloud, consumer)
    done = import_handler(package(consumer, HERE), consumer.name, env)
    assert (done.returncode, done.stderr) == (0, "")


def test_handler_does_not_load_without_its_wheels(local_cloud: Cloud, consumer: Consumer) -> None:
    done = import_handler(ROOT, consumer.name, environment(local_cloud, consumer))
    assert "ModuleNotFoundError" in done.stderr


def test_handler_does_not_load_in_another_consumers_place(local_cloud: Cloud) -> None:
    one, other, *_ = CONSUMERS
    done = import_handler(package(one, HERE), one.name, environment(local_cloud, other))
    assert "RegistrationError" in done.stderr


def test_the_same_input_gives_the_same_package(
    consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = package(consumer, HERE)
    monkeypatch.setattr(package_module, "STAGED", tmp_path)
    second = package(consumer, HERE)
    assert first != second
    assert first.name == second.name
    assert tree(first) == tree(second)


def test_the_same_lock_gives_the_same_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = site([LOCK], HERE)
    monkeypatch.setattr(wheels_module, "SITES", tmp_path)
    second = site([LOCK], HERE)
    assert first != second
    assert first.name == second.name
    assert tree(first) == tree(second)


def test_bytecode_left_in_the_package_does_not_change_the_asset(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_module, "STAGED", tmp_path / "build")
    left = package(CONSUMERS[0], Config()) / "once" / "__pycache__"
    left.mkdir()
    (left / "commit.pyc").touch()
    again = Cloud.synthesize(tmp_path / "out")
    assert again.of(CONSUMERS[0], "Function")["Code"] == cloud.of(CONSUMERS[0], "Function")["Code"]


def test_a_changed_line_of_code_changes_its_own_package_only(
    consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_module, "STAGED", tmp_path / "build")
    folder = tmp_path / "source"
    shutil.copytree(consumer.source, folder)
    copy = replace(consumer, folder=folder)
    before = package(copy, HERE)
    assert before == package(consumer, HERE)
    with (folder / "handler.py").open("a") as handler:
        handler.write("# another line\n")
    assert package(copy, HERE) != before
    assert package(consumer, HERE) == before


def test_another_lock_python_or_machine_gives_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels_module, "SITES", tmp_path / "site")
    monkeypatch.setattr(wheels_module, "_fill", lambda *_: None)
    own = tmp_path / "requirements.txt"
    own.touch()
    locks_and_configs = [
        ([LOCK], Config(python_runtime="3.11")),
        ([LOCK], Config(python_runtime="3.12")),
        ([LOCK], HERE),
        ([LOCK, own], HERE),
    ]
    assert len({site(locks, config) for locks, config in locks_and_configs}) == 4


@pytest.mark.parametrize("module", [package_module, wheels_module], ids=["package", "wheels"])
def test_another_recipe_gives_another_package(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_module, "STAGED", tmp_path / "build")
    monkeypatch.setattr(wheels_module, "SITES", tmp_path / "site")
    monkeypatch.setattr(wheels_module, "_fill", lambda *_: None)
    before = package(CONSUMERS[0], HERE)
    changed = tmp_path / "recipe.py"
    changed.write_text("# another recipe\n")
    monkeypatch.setattr(module, "__file__", str(changed))
    assert package(CONSUMERS[0], HERE) != before


def test_a_functions_own_lock_comes_on_top(consumer: Consumer, tmp_path: Path) -> None:
    assert locks_of(consumer) == [LOCK]
    own = tmp_path / "requirements.txt"
    own.touch()
    assert locks_of(replace(consumer, folder=tmp_path)) == [LOCK, own]


def test_a_lock_that_cannot_be_installed_is_refused_with_a_remedy(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("six==1.17.0\n")
    with pytest.raises(SynthError, match="run `make setup`") as caught:
        site([lock], HERE)
    assert str(lock) in str(caught.value)
    assert "--require-hashes" in str(caught.value)
