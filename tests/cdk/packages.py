"""The packaged functions, and the content of a package."""

from pathlib import Path
from typing import NamedTuple

from once.cdk import functions
from once.cdk.deployment_options import RUNTIME_LOCK, DeploymentConfig
from once.cdk.outbox_relay import RELAY_SERVICES
from once.names import RELAY, UNROUTED
from stacks.consumers import COMMANDS, CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

LOCK = RUNTIME_LOCK
HERE = DeploymentConfig(local=True)


class Function(NamedTuple):
    """Name, folder and AWS services of a function, the first arguments of `package`."""

    name: str
    source: Path
    services: tuple[str, ...] | None = ()


EVERY = [
    *(
        Function(line.name, REGISTRY.folder_of(line), line.aws_services)
        for line in (*CONSUMERS, *COMMANDS, WEBHOOKS)
    ),
    Function(RELAY, functions.FOLDER / RELAY, RELAY_SERVICES),
    Function(UNROUTED, functions.FOLDER / UNROUTED),
]

OF_EACH_KIND = [each for each in EVERY if each.name in ("payments", "notifications", RELAY)]
"""A function with a lock of its own, one with an AWS service, and one of the library."""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
