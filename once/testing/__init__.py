"""Test support for handlers: event factories, an AWS in memory, and injected faults.

Needs moto, which the extra `testing` installs. Function packages do not contain this folder.
"""

from once.errors import extra

with extra("testing"):
    from once.testing.aws import FakeAws
    from once.testing.events import FakeContext, cloud_event
    from once.testing.faults import (
        Fault,
        answer_lost,
        cancelled,
        inject,
        never_sent,
        refused,
    )

__all__ = [
    "FakeAws",
    "FakeContext",
    "Fault",
    "answer_lost",
    "cancelled",
    "cloud_event",
    "inject",
    "never_sent",
    "refused",
]
