"""The AWS services whose clients a function's code creates, against those of its package.

`aws_services=` leaves the SDK's models of all other services out of the package. Without one of
them, `boto3.client` raises `UnknownServiceError` in Lambda alone: on a workstation the SDK has all
models. So the clients are read from the syntax trees of the code; nothing is imported.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import botocore

from once.cdk.checks.handlers_in_code import assigned, text_of
from once.cdk.props import Line

UNREAD_CLIENTS = "once:unread-clients"
"""Id of the warning that a client's service could not be read."""

OWN_SERVICES = frozenset(
    {"dynamodb", "lambda", "s3", "secretsmanager", "sns", "sqs", "stepfunctions"}
)
"""The services that the library calls. Every package has their models."""

_METHODS = frozenset({"client", "create_client", "resource"})
_SDK = frozenset({"aioboto3", "aiobotocore", "boto3", "botocore"})
_POWERTOOLS = "aws_lambda_powertools"
_HINTS = (b"boto", b".client", b".create_client", b".resource", _POWERTOOLS.encode())
"""A module without any of these creates no client: most modules of wheels are not parsed."""
_BY_POWERTOOLS = {
    "AppConfigProvider": "appconfigdata",
    "AppConfigStore": "appconfigdata",
    "SSMProvider": "ssm",
    "get_app_config": "appconfigdata",
    "get_parameter": "ssm",
    "get_parameters": "ssm",
    "get_parameters_by_name": "ssm",
    "set_parameter": "ssm",
}
"""The services that Powertools' utilities call besides those of the library, by their names."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Files and lines of the clients that code creates: the first one of each service.

    `unread` are those whose service is neither a text nor a constant of the file.
    """

    places: Mapping[str, str]
    unread: tuple[str, ...]

    def beyond(self, services: Collection[str]) -> Iterator[str]:
        for service, place in self.places.items():
            if service not in services:
                yield (
                    f"{place} uses the AWS service {service!r}, whose model would not be in the "
                    f"package; add {service!r} to aws_services=, or leave aws_services= out"
                )


def kept_services(declared: Collection[str] | None) -> frozenset[str] | None:
    """Return the services whose models stay in a package; None if all do."""
    return None if declared is None else OWN_SERVICES.union(declared)


def aws_service_faults(props: Line) -> Iterator[str]:
    """Yield each client in the folder that its package could not create, and each wrong name."""
    kept = kept_services(props.aws_services)
    if kept is None:
        return
    for name in sorted(kept - _known_services()):
        close = get_close_matches(name, _known_services(), n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        yield (
            f"aws_services has {name!r}, which is no service of the SDK{meant}; give names as "
            "for boto3.client"
        )
    if props.folder is not None:
        yield from read_clients(props.folder).beyond(kept)


def unread_clients(props: Line) -> str | None:
    """Return the warning for clients whose services synthesis cannot read; None if it reads all."""
    if props.aws_services is None or props.folder is None:
        return None
    unread = read_clients(props.folder).unread
    if not unread:
        return None
    return (
        f"{props.name!r}: the AWS service of a client cannot be read ({', '.join(unread)}), so a "
        "missing name in aws_services= would be found only by the deployed function; give the "
        "client a text or a constant of its file, leave aws_services= out, or acknowledge this "
        "warning"
    )


def read_clients(folder: Path, *, shown: str | None = None, skip: Collection[str] = ()) -> Clients:
    """Return the clients that the modules of a folder create, but for the names in `skip`.

    Places begin with `shown`, by default the folder's name.
    """
    places: dict[str, str] = {}
    unread: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder)
        if relative.parts[0] in skip:
            continue
        text = path.read_bytes()
        if not any(each in text for each in _HINTS):
            continue
        for line, service in _services_in(text):
            place = f"{shown or folder.name}/{relative.as_posix()}:{line}"
            if service is None:
                unread.append(place)
            else:
                places.setdefault(service, place)
    return Clients(places, tuple(unread))


@cache  # the packages of a service have most files in common
def _services_in(text: bytes) -> list[tuple[int, str | None]]:
    """Return line and service of each client in a module; None for a service that is unknown."""
    try:
        return [*_services_of(ast.parse(text))]
    except (SyntaxError, ValueError):
        return []  # the check of the handlers reports it


def _services_of(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    constants = dict(assigned(tree.body))
    packages, functions = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS)
            or (isinstance(node.func, ast.Name) and node.func.id in functions)
        ):
            named = (each.value for each in node.keywords if each.arg == "service_name")
            argument = next(iter(node.args), None) or next(named, None)
            service = None if argument is None else text_of(argument, constants)
            # A text that is no service belongs to a client of another library.
            if service in _known_services() or (
                service is None and argument is not None and packages & _SDK
            ):
                yield node.lineno, service
        elif _POWERTOOLS in packages:
            for line, name in _names_used(node):
                if name in _BY_POWERTOOLS:
                    yield line, _BY_POWERTOOLS[name]


def _imported(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the imported packages, and the local names of boto3's functions that make a client."""
    packages: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add((node.module or "").partition(".")[0])
            if node.module == "boto3":
                made = (alias for alias in node.names if alias.name in _METHODS)
                functions |= {alias.asname or alias.name for alias in made}
    return packages, functions


def _names_used(node: ast.AST) -> list[tuple[int, str]]:
    match node:
        case ast.Attribute(attr=name, lineno=line):
            return [(line, name)]
        case ast.ImportFrom(module=str() as module) if module.startswith(_POWERTOOLS):
            return [(node.lineno, alias.name) for alias in node.names]
    return []


@cache
def _known_services() -> frozenset[str]:
    data = Path(botocore.__file__).parent / "data"
    return frozenset(path.name for path in data.iterdir() if path.is_dir())
