"""The bench's server as a process, on a socket of this machine."""

from typing import Any

import psutil
import pytest

from benchmarks.batches import Setting, batch_rows
from benchmarks.contenders import CONTENDERS
from benchmarks.server import bench_server


# These fixtures replace those of the folder: the tests here use sockets and no AWS in memory.
@pytest.fixture(autouse=True)
def _no_sockets() -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory() -> None:
    pass


def server_processes() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "benchmarks.server" in child.cmdline()]


def test_every_contender_runs_against_the_server_process() -> None:
    taken: list[Any] = []
    setting = Setting(records=10, delay_ms=1, messages=10)
    with bench_server() as server:
        rows = batch_rows(server, setting, 1, lambda: taken.append(None))
        assert server_processes() != []
    assert server_processes() == []
    assert len(taken) == len(rows) == len(CONTENDERS)
    assert all(row["wall_us"] > 100 for row in rows)
