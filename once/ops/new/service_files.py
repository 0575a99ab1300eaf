"""The files of a new service: one consumer, its tests, CI, and what its tool deploys."""

import json
import re
import sys
from enum import StrEnum
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from once.ops.errors import OpsError
from once.ops.new.consumer_files import TEMPLATE_SUFFIX, consumer_files, render, template_names
from once.ops.new.project import Project

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_TEMPLATES = "service"
_REGISTRY = f"{_TEMPLATES}/registry.py{TEMPLATE_SUFFIX}"
_LIBRARY = "once-consumer"
_PACKAGED = Path(__file__).with_name("examples")
_EXAMPLES = _PACKAGED if _PACKAGED.exists() else Path(__file__).parents[3] / "examples"
"""Functions for other tools, of a service and a consumer `tickets`."""
_DOT = "dot-"
"""Stands for the dot of a hidden file or folder, which a package of the library may not hold."""


class Tool(StrEnum):
    """Tools that deploy a service; the constructs write the templates for each."""

    CDK = "cdk"
    SAM = "sam"
    SERVERLESS = "serverless"
    TERRAFORM = "terraform"
    CLOUDFORMATION = "cloudformation"

    @property
    def example(self) -> Path:
        """The file of the function, of another tool than the CDK."""
        name = {"serverless": "serverless.yml", "terraform": "main.tf"}.get(self, "template.yaml")
        return Path(self, name)


def service_files(
    root: Path,
    name: str,
    consumer: str,
    wheels: Path | None = None,
    tool: Tool = Tool.CDK,
) -> tuple[dict[Path, str | bytes], list[str]]:
    """Return the content of each file of a service, and the commands that try it.

    Hidden entries of its empty folder, such as `.git`, do not count. `wheels` is the folder with
    the library's wheel; by default the wheel that the library was installed from, and none if that
    was an index.
    """
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
    wheel = _installed_wheel() if wheels is None else _wheel_in(wheels)
    # The project that the service's pyproject.toml will describe.
    project = Project(
        root=root,
        registry_file=_path(root, _REGISTRY),
        functions=root / "functions",
        tests=root / "tests",
        events=root / "events",
        handled={},
    )
    made = consumer_files(project, consumer, [], render(_REGISTRY))
    major, minor = version(_LIBRARY).split(".")[:2]
    values = {
        "name": name,
        "event_type": made.event.type,
        "sample": json.dumps(made.event.sample),
        "table": consumer,
        "vendored": wheel is not None,
        "tool": "" if tool is Tool.CDK else str(tool.example),
        "version": f"{major}.{minor}",
        "next_version": f"{major}.{int(minor) + 1}",  # the first one that may be incompatible
    }
    files: dict[Path, str | bytes] = {
        _path(root, each): render(each, **values)
        for each in (*template_names(_TEMPLATES), *template_names(tool))  # of the CDK alone
    }
    if tool is not Tool.CDK:
        files[root / tool.example] = _function_of(tool, name, consumer)
    files |= {**made.files, project.registry_file: made.registry}
    if wheel is not None:
        files[root / "vendor" / wheel.name] = wheel.read_bytes()
    tried = "once local up && once local deploy"
    return files, [
        "make install test",
        tried if tool is Tool.CDK else "once explain without-the-cdk#try-it-locally",
        "once new consumer NAME",
    ]


def _function_of(tool: Tool, name: str, consumer: str) -> str:
    """Return the example of a tool with the names of a service and its consumer."""
    text = (_EXAMPLES / tool.example).read_text()
    output = "".join(map(str.capitalize, consumer.split("_")))
    names = {
        "tickets-tickets": f"{name}-{consumer}",
        "tickets-service": f"{name}-service",
        "service: tickets": f"service: {name}-function",
        "Tickets": output,
        "tickets": consumer,
        "python3.12": f"python{sys.version_info.major}.{sys.version_info.minor}",
    }
    return re.sub("|".join(names), lambda found: names[found[0]], text)


def _installed_wheel() -> Path | None:
    """Return the wheel that the library was installed from; None if that was an index.

    Installers record the origin in `direct_url.json` (PEP 610), but for a package of an index or
    of `pip install --find-links`.
    """
    recorded = distribution(_LIBRARY).read_text("direct_url.json")
    if recorded is None:
        return None
    url = str(json.loads(recorded)["url"])
    parts = urlsplit(url)
    path = Path(url2pathname(parts.path))
    if parts.scheme == "file" and path.suffix == ".whl" and path.is_file():
        return path
    origin = path if parts.scheme == "file" else url
    raise OpsError(
        f"the service needs a wheel of {_LIBRARY}, and this one was installed from {origin}: run "
        "`make wheels` in a checkout of its repository, and give --wheels CHECKOUT/dist"
    )


def _wheel_in(folder: Path) -> Path:
    """Return the library's wheel in a folder, of the version that runs."""
    wanted = f"{_LIBRARY.replace('-', '_')}-{version(_LIBRARY)}-*.whl"
    found = sorted(folder.glob(wanted))
    if not found:
        raise OpsError(
            f"{folder} has no {wanted}: `make wheels` in a checkout of the library's repository "
            "makes it in the folder dist"
        )
    return found[0]


def _path(root: Path, template: str) -> Path:
    parts = template.removesuffix(TEMPLATE_SUFFIX).split("/")[1:]
    return root.joinpath(*(re.sub(f"^{_DOT}", ".", part) for part in parts))
