"""The servers of one run, in temporary folders."""

import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.stores.postgres_store import postgres_server
from lab.stores.redis_store import redis_server

SERVERS = {"redis": redis_server, "postgres": postgres_server}


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
