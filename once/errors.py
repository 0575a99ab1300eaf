"""The failure tree. What a failure is decides what becomes of the message.

OnceError
├── ConfigurationError          at load or synth: nothing starts; all faults, each with a remedy
│   ├── SettingsError
│   └── RegistrationError
├── PermanentError              trying again cannot help: quarantined at once, with its reason
│   ├── Unparseable             not the strict JSON that Once reads
│   ├── InvalidEvent            JSON, but no CloudEvents 1.0 envelope
│   ├── UnknownType             no handler for this event type
│   ├── UntrustedSource         its source may not publish this event type
│   ├── InvalidData             the handler's model refuses the data
│   ├── NoKey                   no stable business identity
│   ├── KeyConflict             the key is taken by an event that says something else
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
│   ├── CommitRefused           DynamoDB refused the request for a reason that may pass
│   ├── NotDone                 an effect certainly did not happen: safe to try again
│   ├── Unanswered              an effect's outcome is not known yet: tried again with its key
│   ├── KeySpent                an effect's key brings nothing but a saved error any more
│   ├── InFlight                another delivery of the event is at its effect right now
│   ├── Suspended               what the consumer depends on is down: not tried
│   ├── OutOfTime               the invocation's time was up before the message's turn
│   └── Blocked                 an earlier message of its FIFO group failed
└── Refusal                     a business outcome, not an error: commits its own record
"""

from collections.abc import Sequence

from once.error_text import place_of, summary_of
from once.schema import Reason


class OnceError(Exception):
    """The root: everything the library raises on purpose.

    Attributes:
        reason: why a message that ends with this failure is quarantined.
    """

    reason = Reason.RETRIES_EXHAUSTED

    @property
    def summary(self) -> str:
        """The error as it may be logged: by its name, since its text may quote the message."""
        return summary_of(self)


class ConfigurationError(OnceError):
    """Faults of the set-up, all of them at once.

    Args:
        faults: one sentence each, naming the culprit and the remedy.
    """

    heading = "Once is not configured correctly"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{self.heading}:", *(f"  - {f}" for f in self.faults)]))


class SettingsError(ConfigurationError):
    """An environment variable is missing or malformed."""

    heading = "incomplete environment: deploy through IdempotentConsumer, or set it in the test"


class RegistrationError(ConfigurationError):
    """A consumer's handlers do not add up."""

    heading = "the consumer's registration is not valid"


class PermanentError(OnceError):
    """Trying again cannot help. Handlers may raise it, or a subclass, to quarantine a message."""

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
    """The event has no stable business identity, so it cannot be told from its own duplicate."""

    reason = Reason.NO_KEY


class KeyConflict(PermanentError):
    """Another event was committed under this key, and it said something else."""

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
    """An effect may have happened, and its policy forbids to try again: a person must look."""

    reason = Reason.EFFECT_UNKNOWN


class Unfinished(PermanentError):
    """The function died, timed out or was throttled in each of the message's deliveries."""

    reason = Reason.UNFINISHED


class Unpublishable(PermanentError):
    """An outbox event that cannot be read, or that the topic can never take."""

    reason = Reason.UNPUBLISHABLE


class RetryableError(OnceError):
    """Trying again can help. Handlers may raise it, or a subclass, to see the message again."""


class Unexpected(RetryableError):
    """A handler, or what it called, raised an `error` that is not in this tree."""

    def __init__(self, error: Exception) -> None:
        self._summary = f"{summary_of(error)} at {place_of(error)}"
        super().__init__(f"{self._summary}: {error}")

    @property
    def summary(self) -> str:
        """The class of the exception and its place in the code, never its text."""
        return self._summary


class ConditionFailed(RetryableError):
    """A condition of the handler's own failed, and the handler said nothing of `otherwise`."""


class Contention(RetryableError):
    """Other writers kept changing the same items until no time was left."""


class OutcomeUnknown(RetryableError):
    """DynamoDB gave no answer, and the dedup record could not be read back either."""


class CommitRefused(RetryableError):
    """DynamoDB refused the request for a reason that may pass, such as missing rights."""


class NotDone(RetryableError):
    """An effect certainly did not happen: the provider refused it, or was never reached.

    Effects raise it. What else they raise, unless a Refusal or permanent, leaves it unknown.
    """


class Unanswered(RetryableError):
    """An effect's outcome is not known yet. It is tried again with the same key and bytes."""


class KeySpent(RetryableError):
    """All that the provider will ever say under this key is an error, such as a saved 5xx.

    Effects raise it. It is no outcome: the effect's look-up decides.
    """


class InFlight(RetryableError):
    """Another delivery is at its effect, or died at it: in these seconds it can be told."""

    reason = Reason.NOT_TRIED

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"another delivery is at its effect for at most {seconds:.0f} s more")


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
