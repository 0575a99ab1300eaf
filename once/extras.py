"""Extras of the distribution: names the one to install if a module of it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "once-consumer"

MODULES = {
    "cdk": frozenset({"aws_cdk", "constructs"}),
    "ops": frozenset(
        {"jinja2", "multipart", "python_multipart", "rich", "starlette", "typer", "uvicorn"}
    ),
    "otel": frozenset({"opentelemetry"}),
    "testing": frozenset({"moto"}),
    "webhooks": frozenset({"nacl", "standardwebhooks"}),
}
"""The modules that each extra installs, by the first part of their names."""


class MissingExtra(ModuleNotFoundError):
    """A module is missing that an extra of the distribution installs."""


@contextmanager
def extra(name: str, *, remedy: str = "") -> Iterator[None]:
    """Import modules of an extra.

    The remedy replaces the command that installs the extra, where pip is not the way.

    Raises:
        MissingExtra: a module of the extra is missing; its text names the extra and the remedy.
        ModuleNotFoundError: another module is missing, unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in MODULES[name]:
            raise
        text = (
            f"No module named {error.name!r}, which the extra `{name}` of {DISTRIBUTION} installs"
        )
        how = remedy or f"run pip install '{DISTRIBUTION}[{name}]'"
        raise MissingExtra(f"{text}: {how}", name=error.name) from None
