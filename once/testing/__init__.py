"""For the tests of handlers: event factories, an AWS in memory, and faults to order.

Needs moto, which the extra `testing` brings. Function packages leave this folder out.
"""

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
