"""Operator log of `effects settle`: a line on stderr before the change."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from once.ops.aws.deployment import Deployment


@contextmanager
def logged_change(
    deployment: Deployment, command: str, arguments: Mapping[str, Any], why: str
) -> Iterator[None]:
    """Log a change before it is made.

    Args:
        deployment: the deployment that is changed.
        command: the command, such as `effects settle`.
        arguments: its arguments, without bodies and keys.
        why: the operator's reason.
    """
    entry = {"service": deployment.service, "command": command, **arguments, "why": why}
    typer.echo(json.dumps(entry), err=True)
    yield
