"""The embedded AWS as a context: MiniStack on a free port of 127.0.0.1, TLS on and IAM enforced."""

import http.client
import os
import re
import secrets
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from emulator.certificate import write_certificate
from emulator.child_processes import Child, running
from emulator.connection import HOST, REGION, Connection
from emulator.installed import server_environment

_SERVER = Path(__file__).with_name("server.py")
START_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class EmbeddedAws(Connection):
    """A running embedded AWS."""

    child: Child = field(repr=False)

    def function_processes(self, function_name: str) -> list[psutil.Process]:
        """Return the live worker processes of a Lambda function; none before its first call."""
        worker = re.compile(rf"/ministack-lambda-{re.escape(function_name)}-\w{{8}}/_worker\.")
        found = []
        for process in self.child.descendants():
            with suppress(psutil.Error):  # It has ended in the meantime.
                if any(map(worker.search, process.cmdline())):
                    found.append(process)
        return found

    def wait(self) -> None:
        """Block for as long as it runs.

        Raises:
            ProcessFailed: It ended by itself; the message has its last log lines.
        """
        self.child.wait()
        raise self.child.failure("ended by itself")


@contextmanager
def embedded_aws(*, state_dir: Path | None = None) -> Iterator[EmbeddedAws]:
    """Start an embedded AWS, and end it with the context; several can run side by side.

    Args:
        state_dir: Where it keeps its certificate, log and temporary files. A directory given here
            is kept; the default is a temporary one, which is deleted.

    Raises:
        FileNotFoundError: MiniStack is not installed.
        ProcessFailed: It did not start; the message has its last log lines.
    """
    python = server_environment() / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(
            f"{python} is missing: run `make setup` in a checkout, or `once local up`"
        )
    with ExitStack() as stack, socket.socket() as gateway:
        if state_dir is None:
            made = TemporaryDirectory(prefix="once-aws-", ignore_cleanup_errors=True)
            state = Path(stack.enter_context(made)).resolve()
        else:
            state_dir.mkdir(parents=True, exist_ok=True)
            state = state_dir.resolve()
        # The server inherits the bound socket, so that no other process can take the port.
        gateway.bind((HOST, 0))
        port = gateway.getsockname()[1]
        account = f"{secrets.randbelow(10**12):012}"
        certificate, key = write_certificate(state / "tls")
        # The server that `ministack` starts. Its entry point would also bind port 443 if permitted,
        # which a second instance or the user's web server may need.
        command = [
            # -P: its modules do not hide modules of MiniStack.
            *(str(python), "-P", str(_SERVER), "ministack.app:app", "--workers", "0"),
            *("--bind", f"fd://{gateway.fileno()}", "--keep-alive", "75"),
            *("--graceful-timeout", "0", "--log-level", "WARNING"),
            *("--certfile", str(certificate), "--keyfile", str(key)),
        ]
        with running(
            "MiniStack",
            command,
            env=_environment(state, port, account, certificate, key),
            log=state / "ministack.log",
            cwd=state,
            scratch=None if state_dir else state,
            pass_fds=[gateway.fileno()],
        ) as child:
            gateway.close()
            trust = ssl.create_default_context(cafile=str(certificate))
            child.wait_until(lambda: _is_healthy(port, trust), timeout=START_SECONDS)
            yield EmbeddedAws(
                port=port, account=account, certificate=certificate, state_dir=state, child=child
            )


def _environment(
    state: Path, port: int, account: str, certificate: Path, key: Path
) -> dict[str, str]:
    """Return the whole environment. Functions inherit it: it holds no variable of the user."""
    for name in ("home", "tmp"):
        (state / name).mkdir(exist_ok=True)
    return {
        "PATH": os.defpath,
        "HOME": str(state / "home"),
        "TMPDIR": str(state / "tmp"),
        "STATE_DIR": str(state / "persisted"),
        "S3_DATA_DIR": str(state / "s3"),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "MINISTACK_ACCOUNT_ID": account,
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": account,
        "MINISTACK_REGION": REGION,
        "AUTH": "true",
        "USE_SSL": "1",
        "MINISTACK_SSL_CERT": str(certificate),
        "MINISTACK_SSL_KEY": str(key),
        "AWS_CA_BUNDLE": str(certificate),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
    }


def _is_healthy(port: int, trust: ssl.SSLContext) -> bool:
    connection = http.client.HTTPSConnection(HOST, port, timeout=5, context=trust)
    try:
        connection.request("GET", "/_ministack/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
