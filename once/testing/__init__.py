"""Test support for handlers: event factories, an AWS in memory, and injected faults.

Needs moto, which the extra `testing` installs. Function packages do not contain this folder. The
names load on first use: pytest imports the package for its fixture in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.errors import extra

if TYPE_CHECKING:
    from once.testing.aws import FakeAws as FakeAws
    from once.testing.events import FakeContext as FakeContext
    from once.testing.events import cloud_event as cloud_event
    from once.testing.faults import Fault as Fault
    from once.testing.faults import answer_lost as answer_lost
    from once.testing.faults import cancelled as cancelled
    from once.testing.faults import inject as inject
    from once.testing.faults import never_sent as never_sent
    from once.testing.faults import refused as refused

_HOME = {
    "FakeAws": "once.testing.aws",
    "FakeContext": "once.testing.events",
    "cloud_event": "once.testing.events",
    "Fault": "once.testing.faults",
    "answer_lost": "once.testing.faults",
    "cancelled": "once.testing.faults",
    "inject": "once.testing.faults",
    "never_sent": "once.testing.faults",
    "refused": "once.testing.faults",
}
"""The module of each public name."""

if not TYPE_CHECKING:
    __all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once.testing' has no attribute {name!r}")
    with extra("testing"):
        return getattr(import_module(_HOME[name]), name)
