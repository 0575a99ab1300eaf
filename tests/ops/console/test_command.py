"""`once console` serves on 127.0.0.1 until it is stopped."""

import socket
import threading
import urllib.request

import pytest

from once.ops.console.server import console_server
from once.ops.console.state import ConsoleState
from once.ops.errors import OpsError


def test_the_server_answers_at_its_url_and_ends(state: ConsoleState) -> None:
    with console_server(state) as server:
        thread = threading.Thread(target=server.serve_until_stopped)
        thread.start()
        try:
            with urllib.request.urlopen(server.address.url + "static/console.css") as answer:
                assert answer.status == 200
        finally:
            server.should_exit = True
            thread.join()


def test_a_taken_port_is_an_error(state: ConsoleState) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = console_server(state, other.getsockname()[1])
        with pytest.raises(OpsError, match="another --port"):
            taken.__enter__()
