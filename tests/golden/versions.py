"""The data of every released schema version.

A folder for each version: files such as `v1/records.json` hold data as that version wrote it into
tables and queues. Today's code reads all of them, and writes what the newest one holds, so that
after a rollback the earlier code reads it. A released folder is never changed: a new shape is a new
version, with a folder of its own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
VERSIONS = sorted(int(folder.name[1:]) for folder in FOLDER.glob("v[0-9]*"))

Item = dict[str, Any]


def golden(version: int, name: str) -> Any:
    """Return the content of one file of a version."""
    return json.loads((FOLDER / f"v{version}" / f"{name}.json").read_text())


def cases(name: str) -> list[Any]:
    """Return parameters for a test: each case of a file, of every version, and the version."""
    return [
        pytest.param(version, content, id=f"v{version} {case}")
        for version in VERSIONS
        for case, content in golden(version, name).items()
    ]


def names(name: str) -> list[Any]:
    """Return parameters for a test: the name of each case of a file, and the version."""
    return [
        pytest.param(version, case, id=f"v{version} {case}")
        for version in VERSIONS
        for case in golden(version, name)
    ]
