"""Folders appear whole or not at all, however many build them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from once.cdk.packaging._build_folder import build_once, digest


def test_of_two_that_build_at_once_one_wins_whole(tmp_path: Path) -> None:
    both = Barrier(2)

    def fill(folder: Path) -> None:
        (folder / "first").touch()
        both.wait(timeout=10)
        (folder / "second").touch()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: build_once(tmp_path / "x", fill), range(2)))
    assert results == [tmp_path / "x"] * 2
    assert {path.name for path in (tmp_path / "x").iterdir()} == {"first", "second"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "x", fill)
    assert list(tmp_path.iterdir()) == []


def test_what_stands_is_not_built_again(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    assert build_once(tmp_path / "x", lambda _: pytest.fail("built again")) == tmp_path / "x"


def test_a_digest_tells_where_one_part_ends() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])
    assert digest([b"ab", b"c"]) == digest(iter([b"ab", b"c"]))
