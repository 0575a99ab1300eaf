"""Endings: the errors of messages that end without an error of their handler."""

from once.batch._message_state import MessageState
from once.errors import (
    Contention,
    EffectUnknown,
    InFlight,
    InvalidData,
    OnceError,
    OutOfTime,
    Suspended,
    Unfinished,
)
from once.handlers.intent import Intent
from once.schema import Standing


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
    """Return the error of a message whose invocation ended, or was throttled, in each delivery."""
    deliveries = message.delivery.receive_count - 1
    text = f"the function died, timed out or was throttled in each of its {deliveries} deliveries"
    if message.known is None or message.known.intent is None:
        return Unfinished(text)
    intent = message.known.intent
    return Unfinished(
        f"{text}; its effect {intent.effect!r} is pending under the provider key "
        f"{intent.provider_key}: find out outside whether it was done"
    )


def unresumable(message: MessageState, found: Intent) -> OnceError:
    """Return the error of a pending effect whose message no longer fits the model."""
    error: InvalidData = message.event.data
    if found.standing is Standing.NOT_DONE:
        return error
    if found.standing is Standing.IN_FLIGHT and not message.delivery.is_last_chance:
        return InFlight(0)  # its owner, which could read the data, may be calling
    return EffectUnknown(f"the effect {found.effect!r} may have happened, and {error}")
