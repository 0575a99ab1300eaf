"""The error tree. The class of an error decides whether its message is retried or quarantined.

OnceError
├── ConfigurationError          at load or synth: lists all faults, each with its remedy
│   ├── SettingsError
│   └── RegistrationError
├── PermanentError              trying again cannot help: quarantined at once, with its reason
│   ├── Unparseable             not the strict JSON that Once reads
│   ├── InvalidEvent            JSON, but no CloudEvents 1.0 envelope
│   ├── UnknownType             no handler for this event type
│   ├── UntrustedSource         its source may not publish this event type
│   ├── InvalidData             the handler's model refuses the data
│   ├── NoKey                   no stable business identity
│   ├── KeyConflict             an event or a request with other content has the key
│   ├── TooLarge                over a limit of ours or of AWS
│   ├── InvalidWrite            a write that DynamoDB can never accept
│   ├── UnhandledRefusal        a refusal that no `@consumer.rejects` answers
│   ├── EffectUnknown           an effect may have happened, and must not be tried again
│   ├── Unfinished              the function ended in each delivery before the message was settled
│   └── Unpublishable           an outbox event that the topic can never take
├── RetryableError              trying again can help: back to the queue, with a delay
│   ├── Unexpected              something was raised that is not in this tree
│   ├── ConditionFailed         a handler's condition without `otherwise`
│   ├── Contention              others kept changing the same items until the time was up
│   ├── OutcomeUnknown          no answer, and the record could not be read back either
│   ├── RequestRefused          DynamoDB refused a request for a reason that may pass
│   ├── NotDone                 an effect certainly did not happen: safe to try again
│   ├── Unanswered              an effect's outcome is not known yet: tried again with its key
│   ├── KeySpent                under its key, a provider returns a saved error only
│   ├── InFlight                another delivery of the event is calling its effect
│   ├── Suspended               a dependency of the consumer fails: not attempted
│   ├── OutOfTime               the invocation's time was up before the message's turn
│   └── Blocked                 an earlier message of its FIFO group failed
└── Refusal                     a business outcome, not an error: commits its own record
"""

from collections.abc import Sequence

from once.error_text import place_of, summary_of
from once.schema import Reason


class OnceError(Exception):
    """Base class of all errors that the library raises on purpose.

    Attributes:
        reason: the reason in the dead letter of a message that fails with this error.
    """

    reason = Reason.RETRIES_EXHAUSTED

    @property
    def summary(self) -> str:
        """The error's class for logs. Its text is left out, because it may quote the message."""
        return summary_of(self)


class ConfigurationError(OnceError):
    """Faults of the configuration, reported together.

    Args:
        faults: one sentence each; identifies the mistake and how to fix it.
    """

    heading = "Once is not configured correctly"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{self.heading}:", *(f"  - {f}" for f in self.faults)]))


class SettingsError(ConfigurationError):
    """An environment variable is missing or malformed."""

    heading = "incomplete environment: deploy through IdempotentConsumer, or set it in the test"


class RegistrationError(ConfigurationError):
    """A consumer's handlers are inconsistent, or do not match the settings."""

    heading = "the consumer's registration is not valid"


class PermanentError(OnceError):
    """Another attempt cannot succeed. Handlers may raise it, to quarantine a message."""

    reason = Reason.PERMANENT


class Unparseable(PermanentError):
    """The body is not the strict JSON that Once reads."""

    reason = Reason.UNPARSEABLE


class InvalidEvent(PermanentError):
    """The body is JSON, but not a CloudEvents 1.0 envelope."""

    reason = Reason.INVALID_EVENT


class UnknownType(PermanentError):
    """No handler is registered for this event type."""

    reason = Reason.UNKNOWN_TYPE


class UntrustedSource(PermanentError):
    """The event's source may not publish events of this type."""

    reason = Reason.UNTRUSTED_SOURCE


class InvalidData(PermanentError):
    """The event's data does not fit the handler's model."""

    reason = Reason.INVALID_DATA


class NoKey(PermanentError):
    """The event has no stable business identity, so its duplicates could not be recognized."""

    reason = Reason.NO_KEY


class KeyConflict(PermanentError):
    """Another event, or another request of an effect, with other content has this key."""

    reason = Reason.KEY_CONFLICT


class TooLarge(PermanentError):
    """Over a limit: of the body, of an item, or of a transaction."""

    reason = Reason.TOO_LARGE


class InvalidWrite(PermanentError):
    """A write that DynamoDB can never accept, or two actions on one item."""

    reason = Reason.INVALID_WRITE


class UnhandledRefusal(PermanentError):
    """A refusal that no `@consumer.rejects` answers."""

    reason = Reason.UNHANDLED_REFUSAL


class EffectUnknown(PermanentError):
    """An effect may have happened, and its policy forbids another call: a person must check."""

    reason = Reason.EFFECT_UNKNOWN


class Unfinished(PermanentError):
    """The function was killed, timed out or was throttled in each delivery of the message."""

    reason = Reason.UNFINISHED


class Unpublishable(PermanentError):
    """An outbox event that cannot be read, or that the topic can never take."""

    reason = Reason.UNPUBLISHABLE


class RetryableError(OnceError):
    """Another attempt can succeed. Handlers may raise it, to have the message redelivered."""


class Unexpected(RetryableError):
    """A handler, or code that it called, raised an `error` that is not in this tree."""

    def __init__(self, error: Exception) -> None:
        self.__cause__ = error
        self._summary = f"{summary_of(error)} at {place_of(error)}"
        super().__init__(f"{self._summary}: {error}")

    @property
    def summary(self) -> str:
        """The class of the exception and its place in the code, without its text."""
        return self._summary


class ConditionFailed(RetryableError):
    """A condition of a handler failed, and the handler gave no `otherwise`."""


class Contention(RetryableError):
    """Other writers kept changing the same items until no time was left."""


class OutcomeUnknown(RetryableError):
    """DynamoDB gave no answer, and the dedup record could not be read back either."""


class RequestRefused(RetryableError):
    """DynamoDB refused a request for a reason that may pass: missing rights, a missing table."""


class NotDone(RetryableError):
    """An effect certainly did not happen: the provider refused it, or was never reached.

    Effects raise it. After any other error, except a Refusal or a permanent one, the outcome is
    unknown.
    """


class Unanswered(RetryableError):
    """An effect's outcome is not known yet. It is tried again with the same key and bytes."""


class KeySpent(RetryableError):
    """Under this key, the provider only returns a saved error, such as a saved 5xx.

    Effects raise it. It is not an outcome: the look-up of the effect decides.
    """


class InFlight(RetryableError):
    """Another delivery may still be calling its effect; its lease ends in `seconds`."""

    reason = Reason.NOT_TRIED

    def __init__(self, text: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(text)


class Suspended(RetryableError):
    """The circuit breaker is open: a dependency fails, and the message was not attempted."""

    reason = Reason.NOT_TRIED


class OutOfTime(RetryableError):
    """The invocation's time was up before the message's turn."""

    reason = Reason.NOT_TRIED


class Blocked(RetryableError):
    """An earlier message of the same FIFO group failed, and order must hold."""

    reason = Reason.NOT_TRIED


class Refusal(OnceError):
    """A business refusal: subclass it, and answer it with `@consumer.rejects(YourRefusal)`."""
