"""Endings: the errors of messages that end without an error of their handler."""

from once.batch._message_state import MessageState
from once.disposition import Disposition, MessageResult
from once.errors import Contention, NoEvent, OnceError, OutOfTime, Suspended, Unfinished

LOGGED = (Disposition.DUPLICATE, Disposition.ISOLATED, Disposition.TEST_MESSAGE)
"""Dispositions of messages that are acknowledged without a commit or a dead letter."""


def undecoded(error: OnceError) -> MessageResult:
    """Return the result of a message that was not decoded, for this error."""
    return Disposition.TEST_MESSAGE if isinstance(error, NoEvent) else error


def contention() -> Contention:
    """Return the error of a message in permanent contention."""
    return Contention("others kept changing the same items until the time was up")


def out_of_time() -> OutOfTime:
    """Return the error of a message that was not attempted in the time of the invocation."""
    return OutOfTime("the invocation's time was up before the message's turn")


def suspended() -> Suspended:
    """Return the error of a message that the circuit breaker holds back."""
    return Suspended("what the consumer depends on is down")


def unfinished(message: MessageState) -> Unfinished:
    """Return the error of a message whose function ended, or did not start, each time."""
    return Unfinished(
        "the function did not start, died, timed out or was throttled in each of its "
        f"{message.delivery.receive_count - 1} deliveries"
    )
