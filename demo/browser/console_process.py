"""The command `once console` as a child process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from emulator.embedded_aws import ROOT

_URL = re.compile(r"http://127\.0\.0\.1:\d+/\S+")
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
        [sys.executable, "-m", "once.ops", "console", *options],
        cwd=ROOT,
        env={**os.environ, **environment, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
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
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if found := _URL.search(line):
            return found[0]
    raise RuntimeError("once console has ended: " + "".join(lines))
