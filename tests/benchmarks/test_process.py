"""The bench's server as a process, on a socket of this machine."""

import psutil
import pytest

from benchmarks.batches import Setting, batch_rows
from benchmarks.contenders import CONTENDERS
from benchmarks.goals import goals_of
from benchmarks.report import measured
from benchmarks.server import bench_server


# These fixtures replace those of the folder: the test uses sockets and no AWS in memory.
@pytest.fixture(autouse=True)
def _no_sockets() -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory() -> None:
    pass


def test_every_contender_runs_against_the_process_which_ends_with_the_context() -> None:
    before = {*psutil.Process().children()}
    with bench_server() as server:
        started = {*psutil.Process().children()} - before
        rows = batch_rows(server, Setting(records=10, delay_ms=5, messages=10), 1, lambda: None)
    assert started
    # multiprocessing's tracker of resources stays
    assert [
        each for each in started if each.is_running() and "spawn_main" in str(each.cmdline())
    ] == []
    assert len(rows) == len(CONTENDERS)
    assert all(row["wall_us"] > 100 for row in rows)
    assert "| raw transaction | – | 1.00 |" in "\n".join(measured(rows, [], goals_of(rows, [])))
