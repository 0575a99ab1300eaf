"""Names that follow from a consumer's name or from an event type."""

import re

from once.ops.errors import OpsError
from once.schema import CONSUMER_NAME, EVENT_TYPE, RELAY, UNROUTED

_NO_PLURAL = ("ss", "us", "is")
_PLURALS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("zes", "z"), ("ches", "ch"),
            ("shes", "sh"), ("s", ""))  # fmt: skip
_RESERVED = frozenset({RELAY, UNROUTED})


def check_name(name: str, kind: str = "consumer") -> None:
    """Check that a name can be a folder, a module and part of dedup keys.

    Raises:
        OpsError: it cannot.
    """
    if not CONSUMER_NAME.fullmatch(name):
        raise OpsError(
            f"{name!r} cannot be a {kind}'s name: use at most 40 lower-case letters, digits and "
            "underscores, a letter first"
        )
    if name in _RESERVED:
        raise OpsError(f"{name!r} is the name of a function of the library: choose another name")


def check_type(event_type: str) -> None:
    """Check that an event type has the form of `refund.requested`.

    Raises:
        OpsError: no class can be named after it, or no subscription can select it.
    """
    if not EVENT_TYPE.fullmatch(event_type) or not class_name(event_type).isidentifier():
        raise OpsError(
            f"{event_type!r} cannot be an event type here: use words of letters and digits with "
            "dots between them, such as refund.requested"
        )


def singular(name: str) -> str:
    """Return the singular of an English plural; another name stays as it is."""
    if name.endswith(_NO_PLURAL):
        return name
    for plural, end in _PLURALS:
        if name.endswith(plural) and len(name) > len(plural) + 1:
            return name.removesuffix(plural) + end
    return name


def default_type(name: str) -> str:
    """Return the event type of a consumer for which none is given: `refund.requested`."""
    return f"{singular(name)}.requested"


def class_name(event_type: str) -> str:
    """Return `RefundRequested` for `refund.requested`."""
    words = re.split(r"[^0-9A-Za-z]+", event_type)
    return "".join(word[:1].upper() + word[1:] for word in words)


def function_suffix(event_type: str) -> str:
    """Return `refund_requested` for `refund.requested`."""
    return re.sub(r"[^0-9a-z]+", "_", event_type.lower()).strip("_")
