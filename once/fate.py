"""The end of a message in one delivery: its fate, or the error that decides it."""

from enum import StrEnum

from once.errors import OnceError


class Fate(StrEnum):
    """The end of a message in one delivery."""

    COMMITTED = "committed"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    ISOLATED = "isolated"
    QUARANTINED = "quarantined"
    RETRIED = "retried"


Result = Fate | OnceError
