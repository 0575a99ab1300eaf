"""The files of a new service: a CDK app with one consumer, its tests, and CI."""

import json
import re
from importlib.metadata import version
from pathlib import Path

from once.ops.errors import OpsError
from once.ops.new.consumer_files import consumer_files
from once.ops.new.project import Project
from once.ops.new.rendering import SUFFIX, render, template_names

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_TEMPLATES = "service"
_REGISTRY = f"{_TEMPLATES}/registry.py{SUFFIX}"
_DOT = "dot-"
"""Stands for the dot of a hidden file or folder, which a package of the library may not hold."""


def service_files(root: Path, name: str, consumer: str) -> tuple[dict[Path, str], list[str]]:
    """Return the content of each file of a service, and the commands that try it.

    Args:
        root: the empty folder of the service; hidden entries such as `.git` do not count.
        name: the service's name.
        consumer: the name of its first consumer.

    Raises:
        OpsError: the folder is not empty, or a name cannot be used.
    """
    _check(root, name)
    project = _project(root)
    made = consumer_files(project, consumer, [], render(_REGISTRY))
    event = {"event_type": made.event.type, "sample": json.dumps(made.event.sample)}
    files = {
        _path(root, each): render(each, name=name, **event, **_versions())
        for each in template_names(_TEMPLATES)
    }
    files |= {**made.files, project.registry_file: made.registry}
    return files, ["pip install --editable .", "pytest", "once new consumer NAME"]


def _check(root: Path, name: str) -> None:
    if found := sorted(path.name for path in root.iterdir() if not path.name.startswith(".")):
        raise OpsError(
            f"{root} is not empty ({found[0]}): a service begins in an empty folder; in a project, "
            "`once new consumer NAME` adds a consumer"
        )
    if not _NAME.fullmatch(name):
        raise OpsError(
            f"{name!r} cannot be a service's name: use at most 20 lower-case letters, digits and "
            "hyphens, a letter first"
        )


def _project(root: Path) -> Project:
    """Return the project that the service's pyproject.toml will describe."""
    return Project(
        root=root,
        registry_file=_path(root, _REGISTRY),
        functions=root / "functions",
        tests=root / "tests",
        events=root / "events",
        handled={},
    )


def _path(root: Path, template: str) -> Path:
    parts = template.removesuffix(SUFFIX).split("/")[1:]
    return root.joinpath(*(re.sub(f"^{_DOT}", ".", part) for part in parts))


def _versions() -> dict[str, str]:
    """Return the version of the library, and the first one that may be incompatible."""
    major, minor = version("once-consumer").split(".")[:2]
    return {"version": f"{major}.{minor}", "next_version": f"{major}.{int(minor) + 1}"}
