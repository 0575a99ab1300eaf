"""The stores are real servers, and nothing of them is left behind."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen

import psutil
import psycopg
import pytest
import redis

from lab.stores import SERVERS, postgres_store, redis_store, server_process, servers
from tests.architecture.imports import ROOT

DAY = 24 * 60 * 60


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with servers(SERVERS) as running:
        yield running


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder for temporary ones; not pytest's, since the path of a socket is short."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_redis_forgets_a_key_when_its_time_has_passed(urls: dict[str, str]) -> None:
    store = redis_store(urls["redis"])
    store.reset()
    with redis.Redis.from_url(urls["redis"]) as client:
        assert client.info("server")["redis_version"].startswith("6.")
        assert [client.set("key", "1", nx=True, ex=60) for _ in range(2)] == [True, None]
        client.set("kept", "1")
        store.expire(59)
        assert client.get("key") == b"1"
        store.expire(2)
        assert [client.get("key"), client.get("kept")] == [None, b"1"]
        store.reset()
        assert client.keys() == []


def test_postgres_refuses_a_key_twice_until_the_clean_up_job_deletes_it(
    urls: dict[str, str],
) -> None:
    insert = "INSERT INTO processed_messages VALUES ('k') ON CONFLICT DO NOTHING"
    store = postgres_store(urls["postgres"])
    store.reset()
    with psycopg.connect(urls["postgres"], autocommit=True) as connection:
        assert [connection.execute(insert).rowcount for _ in range(2)] == [1, 0]
        store.expire(6 * DAY)
        assert connection.execute(insert).rowcount == 0
        store.expire(2 * DAY)
        assert connection.execute(insert).rowcount == 1


def test_servers_and_folders_are_gone_after_a_failure(temporary: Path) -> None:
    before = children()

    def fail_with_servers() -> None:
        with servers(SERVERS):
            assert len(children() - before) > len(SERVERS)  # PostgreSQL has several
            assert len(list(temporary.iterdir())) == len(SERVERS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_with_servers()
    assert children() <= before
    assert list(temporary.iterdir()) == []


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no memory')"]
    with (
        pytest.raises(RuntimeError, match="no memory"),
        server_process(command, ready=lambda: False, folder=tmp_path),
    ):
        pytest.fail("it has started")


def children_when(pid: int, names: set[str], processes: int) -> list[psutil.Process]:
    """Return a process's children when there are so many, with these names among them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= processes and names <= {process.name() for process in found}:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"{pid} has not started {names}")


@pytest.mark.usefixtures("temporary")
def test_nothing_is_left_when_the_lab_is_killed() -> None:
    command = [sys.executable, "-m", "lab", "--approach", "redis_short"]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'conformance'}"}
    lab = Popen(command, cwd=ROOT, env={**os.environ, **paths}, stdout=DEVNULL, stderr=DEVNULL)
    started = children_when(lab.pid, {"redis-server"}, processes=3)  # and two of the checks
    lab.kill()
    lab.wait(60)
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
