"""Wheels of a package, and the build folders in which they are installed once."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.packaging import function_package as package_module
from once.cdk.packaging.function_package import build_once, digest, install_wheels
from tests.cdk.packages import HERE, LOCK, names, tree


def test_the_same_lock_gives_the_same_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "requirements.txt"  # the smallest wheel: pip does the same with each
    [entry] = re.findall(r"^rfc8785==.*?(?=^[a-z])", LOCK.read_text() + "z", re.M | re.S)
    small.write_text(entry)
    together = tree(install_wheels([LOCK], HERE))
    monkeypatch.setattr(package_module, "SITES", tmp_path / "site")
    alone = tree(install_wheels([small], HERE))
    assert any(name.startswith("rfc8785/") for name in alone)
    assert alone.items() <= together.items()


@pytest.mark.usefixtures("_without_pip")
def test_another_lock_python_or_machine_gives_another_folder(tmp_path: Path) -> None:
    own = tmp_path / "requirements.txt"
    own.touch()
    folders = [
        install_wheels([LOCK], DeploymentConfig(python_runtime="3.11")),
        install_wheels([LOCK], DeploymentConfig(python_runtime="3.12")),
        install_wheels([LOCK], HERE),
        install_wheels([LOCK, own], HERE),
    ]
    assert len(set(folders)) == 4


def test_a_lock_that_cannot_be_installed_is_refused_with_a_remedy(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("six\n")  # without a version: pip refuses it before it asks an index
    with pytest.raises(SynthError, match="install pip if it is missing") as caught:
        install_wheels([lock], HERE)
    assert str(lock) in str(caught.value)
    assert "--require-hashes" in str(caught.value)


build = partial(build_once, keep_seconds=3600)


def test_a_folder_that_two_build_at_once_is_whole(tmp_path: Path) -> None:
    both = Barrier(2)

    def fill(folder: Path) -> None:
        (folder / "first").touch()
        both.wait(timeout=120)
        (folder / "second").touch()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: build(tmp_path / "x", fill), range(2)))
    assert results == [tmp_path / "x"] * 2
    assert names(tmp_path / "x") == {"first", "second"}
    assert names(tmp_path) == {"x"}


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "x", fill)
    assert names(tmp_path) == set()


def test_a_build_deletes_folders_that_were_not_used_for_an_hour(tmp_path: Path) -> None:
    for name in ("old", "used", ".part-killed", "new"):
        build(tmp_path / name, lambda folder: (folder / "file").touch())
    for name in ("old", "used", ".part-killed"):
        os.utime(tmp_path / name, (0, 0))
    build(tmp_path / "used", lambda _: pytest.fail("built again"))
    assert names(tmp_path) == {"old", "used", ".part-killed", "new"}  # no build
    build(tmp_path / "x", lambda folder: None)
    assert names(tmp_path) == {"used", "new", "x"}


def test_a_folder_that_another_synthesis_uses_is_not_deleted(tmp_path: Path) -> None:
    """The other one takes an old folder into use while this one looks for old folders."""
    build(tmp_path / "old", lambda folder: None)
    os.utime(tmp_path / "old", (0, 0))
    with ThreadPoolExecutor(1) as pool, package_module._locked(tmp_path):
        built = pool.submit(build, tmp_path / "x", lambda folder: None)
        with pytest.raises(TimeoutError):  # it waits for the lock
            built.result(timeout=0.2)
        os.utime(tmp_path / "old")
    assert built.result() == tmp_path / "x"
    assert names(tmp_path) == {"old", "x"}


def test_a_digest_depends_on_where_each_part_ends() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])
    assert digest([b"ab", b"c"]) == digest(iter([b"ab", b"c"]))
