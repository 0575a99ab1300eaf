"""The consumer of a registry's line, for `FakeAws.of`. Imports nothing of `once.cdk`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from once.consumer import Consumer


class Table(Protocol):
    """A table of a line: `once.cdk.TableProps`."""

    @property
    def name(self) -> str:
        """The name that handlers use."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes of its key."""


class Line(Protocol):
    """A line of a registry: `once.cdk.ConsumerProps`."""

    @property
    def folder(self) -> Path | None:
        """The folder of its `handler.py`."""

    @property
    def tables(self) -> Sequence[Table]:
        """Its tables."""

    @property
    def timeout_seconds(self) -> int:
        """The timeout of its function."""

    @property
    def claim_check_mb(self) -> int:
        """The largest event of its claim-check bucket; 0 without one."""


class Registry(Protocol):
    """A registry of consumers: `once.cdk.Registry`."""

    def line_of(self, name: str) -> Line:
        """Return the line of a consumer, with its folder."""

    def settings_of(self, name: str) -> dict[str, Any]:
        """Return the settings that follow from the lines."""


def consumer_of(line: Line) -> Consumer:
    """Return the consumer that the `handler.py` of a line defines.

    Raises:
        LookupError: the module cannot be imported from `sys.path`, or has not one consumer.
    """
    file = (Path() if line.folder is None else line.folder).resolve() / "handler.py"
    module = _module_of(file)
    found = {id(each): each for each in vars(module).values() if isinstance(each, Consumer)}
    if len(found) != 1:
        raise LookupError(f"{file} has {len(found)} objects of once.Consumer at its top; keep one")
    return next(iter(found.values()))


def _module_of(file: Path) -> ModuleType:
    for module in list(sys.modules.values()):
        own = getattr(module, "__file__", None)
        if own is not None and own.endswith("handler.py") and Path(own).resolve() == file:
            return module
    for place in sys.path:
        base = Path(place).resolve()
        parts = file.with_suffix("").parts[len(base.parts) :]
        if file.is_relative_to(base) and all(part.isidentifier() for part in parts):
            return import_module(".".join(parts))
    raise LookupError(
        f"no folder of sys.path holds {file}; add the one that holds `functions`, as with "
        'pythonpath = ["."] in the settings of pytest'
    )
