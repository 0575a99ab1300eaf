"""A proxy between functions and AWS, which cuts off some of their calls.

It has a certificate of its own and reads what is said, since encrypted records do not tell an
answer from a handshake: an answer that it loses has arrived here whole, so AWS had done what it was
asked for. Everything else is passed on byte for byte.
"""

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from emulator.certificate import write_certificate
from emulator.embedded_aws import HOST, EmbeddedAws
from proof.soak.drops import Drop, Drops
from proof.soak.http import headers, operation, read_message

_GONE = (OSError, asyncio.IncompleteReadError)
"""What a connection ends with that the other side, or its process, has closed."""


@dataclass(frozen=True)
class Proxy:
    """A running proxy.

    Attributes:
        port: where it listens, on 127.0.0.1.
        certificate: what its clients must trust, PEM.
        passed: how many attempts were answered, by what they asked for.
        dropped: how many were cut off, by how and by what they asked for.
    """

    port: int
    certificate: Path
    passed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[Drop, str]] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        """The endpoint that functions are to call."""
        return f"https://{HOST}:{self.port}"

    def count(self, request: bytes, drop: Drop | None) -> None:
        """Note what has become of a request."""
        if drop is None:
            self.passed[operation(request)] += 1
        else:
            self.dropped[drop, operation(request)] += 1


@contextmanager
def proxying(aws: EmbeddedAws, drops: Drops) -> Iterator[Proxy]:
    """Run a proxy before an embedded AWS for as long as the context lasts.

    What is held back at its end never arrives.

    Args:
        aws: where calls go.
        drops: which of them are cut off.
    """
    certificate, key = write_certificate(aws.state_dir / "proxy")
    here = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    here.load_cert_chain(certificate, key)
    there = ssl.create_default_context(cafile=str(aws.certificate))
    with asyncio.Runner() as runner, socket.create_server((HOST, 0)) as listening:
        proxy = Proxy(listening.getsockname()[1], certificate)
        lines = _Lines(proxy, drops, aws.port, there)
        server = runner.run(asyncio.start_server(lines.serve, sock=listening, ssl=here))
        loop = runner.get_loop()
        thread = Thread(target=loop.run_forever, name="proxy")
        thread.start()
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()


@dataclass(frozen=True)
class _Lines:
    """The connections of functions, each with one of its own to AWS."""

    proxy: Proxy
    drops: Drops
    port: int
    trust: ssl.SSLContext
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def serve(self, requests: StreamReader, caller: StreamWriter) -> None:
        """Serve a connection from now on."""
        task = asyncio.create_task(self._serve(requests, caller))
        # Nobody else holds on to a task whose caller has been cut off.
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, requests: StreamReader, caller: StreamWriter) -> None:
        """Pass requests on, one after another, until a side closes or one is cut off."""
        try:
            with suppress(*_GONE):
                answers, aws = await asyncio.open_connection(HOST, self.port, ssl=self.trust)
                try:
                    while request := await read_message(requests):
                        if not await self._passed(request, caller, answers, aws):
                            break
                finally:
                    aws.transport.abort()
        finally:
            caller.transport.abort()

    async def _passed(
        self, request: bytes, caller: StreamWriter, answers: StreamReader, aws: StreamWriter
    ) -> bool:
        """Tell whether a request and its answer were passed on, and the connection may stay."""
        drop = self._drawn(request)
        if drop is Drop.REFUSED:
            self.proxy.count(request, drop)
            return False
        if drop is Drop.LATE:
            caller.transport.abort()
            await asyncio.sleep(self.drops.late_seconds)
        aws.write(request)
        answer = await read_message(answers)
        if not answer:
            return False
        self.proxy.count(request, drop)
        if drop is None:
            caller.write(answer)
            await caller.drain()
        return drop is None

    def _drawn(self, request: bytes) -> Drop | None:
        said = headers(request)
        again = not said["amz-sdk-request"].startswith("attempt=1")
        return self.drops.drawn(said["amz-sdk-invocation-id"], again=again)
