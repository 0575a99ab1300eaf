"""Disposition: the final state of a message in one delivery."""

from enum import StrEnum

from once.errors import OnceError


class Disposition(StrEnum):
    """The final state of a message in one delivery."""

    COMMITTED = "committed"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    ISOLATED = "isolated"
    QUARANTINED = "quarantined"
    RETRIED = "retried"
    TEST_MESSAGE = "test-message"


MessageResult = Disposition | OnceError
"""A disposition, or the error from which one follows: quarantined, or retried."""
