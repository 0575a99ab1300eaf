"""Server of the console: on 127.0.0.1, on a free port, for one operator."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from secrets import token_urlsafe

import uvicorn

from once.ops.console.access import Address
from once.ops.console.app import console_app
from once.ops.console.state import ConsoleState
from once.ops.errors import OpsError

HOST = "127.0.0.1"


class ConsoleServer(uvicorn.Server):
    """The console's server, before it runs.

    Attributes:
        address: its address.
    """

    def __init__(self, state: ConsoleState, listener: socket.socket) -> None:
        self._listener = listener
        self._state = state
        self.address = Address(listener.getsockname()[1], token_urlsafe(24))
        super().__init__(
            uvicorn.Config(
                console_app(state, self.address),
                log_level="warning",  # the access log would have the token
                timeout_graceful_shutdown=1,  # an open page never closes its stream of changes
            )
        )

    def serve_until_stopped(self) -> None:
        """Serve until Ctrl-C or SIGTERM, or until `should_exit` is set."""
        stop = threading.Event()
        follower = threading.Thread(target=self._state.queues.follow, args=(stop,), daemon=True)
        follower.start()
        try:
            self.run(sockets=[self._listener])
        finally:
            stop.set()


@contextmanager
def console_server(state: ConsoleState, port: int = 0) -> Iterator[ConsoleServer]:
    """Bind a port of 127.0.0.1, and release it at the end.

    Args:
        state: the console's state.
        port: the port; 0 for a free one.

    Raises:
        OpsError: the port is taken.
    """
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()  # what opens the URL before the server runs waits
        except OSError as error:
            raise OpsError(f"port {port} cannot be used ({error}): give another --port") from None
        yield ConsoleServer(state, listener)
