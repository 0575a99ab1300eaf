"""The command `once console` as a child process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from emulator.embedded_aws import ROOT

_END_SECONDS = 20


@contextmanager
def console_process(environment: Mapping[str, str], *options: str) -> Iterator[str]:
    """Run `once console`, and end it with the context as Ctrl-C does.

    Args:
        environment: the variables of the AWS that it shows.
        options: options of the command.

    Yields:
        Its URL.

    Raises:
        RuntimeError: it did not start; the message has its output.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "once.ops", "console", "--json", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield _url(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _url(process: "subprocess.Popen[str]") -> str:
    assert process.stdout  # noqa: S101 - it is a pipe
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"once console has ended: {process.communicate()[1]}")
    return str(json.loads(line)["url"])
