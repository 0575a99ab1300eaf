"""The functions that are packaged, and how the tests look into a package."""

from pathlib import Path
from typing import NamedTuple

from once.cdk.config import Config
from once.cdk.props import FUNCTIONS
from once.schema import RELAY, UNROUTED
from stacks.consumers import CONSUMERS

LOCK = FUNCTIONS / "requirements.txt"
HERE = Config(local=True)


class Function(NamedTuple):
    """What `package` takes of a consumer and of the relay alike."""

    name: str
    source: Path


EVERY = [
    *(Function(line.name, line.source) for line in CONSUMERS),
    Function(RELAY, FUNCTIONS / RELAY),
    Function(UNROUTED, FUNCTIONS / UNROUTED),
]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
