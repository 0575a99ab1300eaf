"""Checks of a sample: orders, failures and requests must be right, or its figures mean nothing."""

from collections import Counter

from benchmarks.contenders import Contender
from benchmarks.loads import Load
from benchmarks.matrix import Setting
from benchmarks.running import Seen

_SHOWN = 3


class Wrong(Exception):
    """A sample is invalid; the message names contender, setting and fault."""


def check(
    setting: Setting, contender: Contender, load: Load, seen: Seen, failed: list[str]
) -> None:
    """Check a sample against the state of the tables.

    Args:
        setting: the setting.
        contender: the contender.
        load: the messages that were sent.
        seen: the counts of the server.
        failed: ids of the messages that were reported as failed.

    Raises:
        Wrong: a message failed, an order is missing or was put more than once, or the number of
            requests is not the claimed one.
    """
    faults = []
    if failed:
        faults.append(f"reported as failed: {_some(failed)}")
    if contender.exactly_once:
        faults += _not_once(load.orders, seen.orders)
    expected = round(contender.requests * load.messages)
    if not setting.faulty and seen.counts.requests != expected:
        faults.append(f"{seen.counts.requests} requests, and it claims to need {expected}")
    if faults:
        raise Wrong(f"{contender.name}, {setting}: {'; '.join(faults)}")


def _not_once(orders: set[str], put: Counter[str]) -> list[str]:
    wrong = {
        "never put": orders - put.keys(),
        "put, and never sent": put.keys() - orders,
        "put more than once": {order for order, times in put.items() if times > 1},
    }
    return [f"{what}: {_some(found)}" for what, found in wrong.items() if found]


def _some(names: set[str] | list[str]) -> str:
    shown = sorted(names)[:_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
