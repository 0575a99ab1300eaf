"""Command lines of the project, run as child processes against an embedded AWS."""

import os
import subprocess
import sys
from typing import Any

from emulator.embedded_aws import ROOT, EmbeddedAws


def run_once(aws: EmbeddedAws, *arguments: str, **options: Any) -> None:
    """Run the operator's command line `once`; its output goes to this program's output.

    Args:
        aws: the AWS that the command operates on.
        arguments: the command and its options, such as `dlq`, `list`.
        options: further arguments of `subprocess.run`.

    Raises:
        subprocess.CalledProcessError: the exit status is not 0.
    """
    run_module(aws, "once.ops", *arguments, **options)


def run_module(aws: EmbeddedAws, module: str, *arguments: str, **options: Any) -> None:
    """Run `python -m` with a module and its arguments.

    Raises:
        subprocess.CalledProcessError: the exit status is not 0.
    """
    environment = {**os.environ, **aws.environment()}
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, **options)
