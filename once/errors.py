"""The error tree. The class of an error decides whether its message is retried or quarantined.

docs/reference/errors.md draws it: the page is made from these classes and their remedies.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from traceback import walk_tb

from once.names import Reason, explained_by

UNREADABLE = (ValueError, RecursionError)
"""Errors of `json` and `msgspec` for a text that is not JSON, not of a type, or nested too deeply.

Texts that another party wrote are decoded by `once.events.strict_json.parse`, or with these errors
handled.
"""

THROTTLING = frozenset(
    {
        *("ThrottlingException", "ProvisionedThroughputExceededException"),
        *("RequestLimitExceeded", "ThrottlingError", "ProvisionedThroughputExceeded"),
    }
)
"""DynamoDB's codes for a lack of capacity: of errors, and of cancellation reasons."""

DISTRIBUTION = "once-consumer"

EXTRAS = {
    "cdk": frozenset({"aws_cdk", "constructs"}),
    "ops": frozenset(
        {
            "jinja2",
            "markdown_it",
            "multipart",
            "python_multipart",
            "rich",
            "starlette",
            "typer",
            "uvicorn",
        }
    ),
    "otel": frozenset({"opentelemetry"}),
    "testing": frozenset({"moto"}),
    "webhooks": frozenset({"nacl", "standardwebhooks"}),
}
"""The modules that each extra of the distribution installs, by the first part of their names."""

_LIBRARIES = ("once", "aws_lambda_powertools", "contextlib")


def summary_of(error: BaseException) -> str:
    """Return an error's class, and the error code of AWS if there is one, as the text for logs."""
    response = getattr(error, "response", None)  # None for some errors without a response
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def place_of(error: BaseException) -> str:
    """Return the function and line of the handler's package in which an error was raised.

    If a handler calls another package, such as the SDK, this is the line of that call. An error
    that was raised without a handler has the place where it was raised.
    """
    calls = list(walk_tb(error.__traceback__))
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in calls]
    packages = [name.rpartition(".")[0] or name for name in modules]
    own = next((each for each in packages if not _is_in(each, _LIBRARIES)), "")
    places = [call for call, each in zip(calls, packages, strict=True) if _is_in(each, (own,))]
    if not calls:
        return "an unknown place"
    frame, line = (places or calls)[-1]
    return f"{frame.f_code.co_name}:{line}"


def _is_in(package: str, parents: tuple[str, ...]) -> bool:
    return any(f"{package}.".startswith(f"{parent}.") for parent in parents)


class OnceError(Exception):
    """Base class of all errors that the library raises on purpose.

    Attributes:
        reason: the reason in the dead letter of a message that fails with this error.
    """

    reason = Reason.RETRIES_EXHAUSTED

    def __init_subclass__(cls, *, reason: Reason | None = None) -> None:
        super().__init_subclass__()
        if reason is not None:
            cls.reason = reason

    @property
    def summary(self) -> str:
        """The error's class for logs. Its text is left out, because it may quote the message."""
        return summary_of(self)


class ConfigurationError(OnceError):
    """Faults of the configuration, reported together.

    Remedy: correct each fault as its text says, and deploy again.

    Args:
        faults: one sentence each; identifies the mistake and how to fix it.
    """

    heading = "Once is not configured correctly"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{self.heading}:", *(f"  - {f}" for f in self.faults)]))


class SettingsError(ConfigurationError):
    """The settings of a function are missing or malformed."""

    heading = f"the function's settings are not valid ({explained_by('settings')})"


class RegistrationError(ConfigurationError):
    """A consumer's handlers are inconsistent, or do not match the settings."""

    heading = "the consumer's registration is not valid"


class WrongTrigger(OnceError):
    """A function was invoked with an event of another service than its own.

    Remedy: remove the trigger that the error names from the function; the constructs add the right
    one. For a test in the console, take its template of the service.
    """


class PermanentError(OnceError, reason=Reason.PERMANENT):
    """Another attempt cannot succeed. Handlers may raise it, to quarantine a message."""


class Unparseable(PermanentError, reason=Reason.UNPARSEABLE):
    """The body is not the strict JSON that Once reads."""


class InvalidEvent(PermanentError, reason=Reason.INVALID_EVENT):
    """The body is JSON, but not a CloudEvents 1.0 envelope, or not the one of its `source=`."""


class UnknownType(PermanentError, reason=Reason.UNKNOWN_TYPE):
    """No handler is registered for this event type."""


class UntrustedSource(PermanentError, reason=Reason.UNTRUSTED_SOURCE):
    """The event's source may not publish events of this type."""


class InvalidData(PermanentError, reason=Reason.INVALID_DATA):
    """The event's data does not fit the handler's model."""


class NoKey(PermanentError, reason=Reason.NO_KEY):
    """The event has no stable business identity, so its duplicates could not be recognized."""


class KeyConflict(PermanentError, reason=Reason.KEY_CONFLICT):
    """Another event, or another request of an effect, with other content has this key."""


class TooLarge(PermanentError, reason=Reason.TOO_LARGE):
    """Over a limit: of the body, of an item, or of a transaction."""


class InvalidWrite(PermanentError, reason=Reason.INVALID_WRITE):
    """A write that DynamoDB can never accept, or two actions on one item."""


class WrongOutcome(PermanentError, reason=Reason.WRONG_OUTCOME):
    """An effect was done, and its outcome is not of the declared type, or too large for a letter.

    Remedy: correct the function or its annotation, deploy, and redrive. The effect is then called
    again as its policy allows; `once effects settle --done` avoids that.
    """


class UnhandledRefusal(PermanentError, reason=Reason.UNHANDLED_REFUSAL):
    """A refusal that no `@consumer.rejects` answers."""


class EffectUnknown(PermanentError, reason=Reason.EFFECT_UNKNOWN):
    """An effect may have happened, and its policy forbids another call: a person must check.

    Args:
        text: what is known, and how to find out the rest.
        outcome: the outcome of an effect that was done, which the dead letter carries.
    """

    def __init__(self, text: str = "", *, outcome: str | None = None) -> None:
        self.outcome = outcome
        super().__init__(text)


class Unfinished(PermanentError, reason=Reason.UNFINISHED):
    """The function was killed, timed out or was throttled in each delivery of the message."""


class Unpublishable(PermanentError, reason=Reason.UNPUBLISHABLE):
    """An outbox event that cannot be read, or that the topic can never take."""


class RetryableError(OnceError):
    """Another attempt can succeed. Handlers may raise it, to have the message redelivered.

    Remedy: none while attempts are left. Of a dead letter: correct what the error names, if it has
    not passed, then redrive it.
    """


class Unexpected(RetryableError):
    """A handler, or code that it called, raised an `error` that is not in this tree.

    Remedy: read the class and the place of the exception in the log, correct the handler and deploy
    it before the attempts are used up; redrive what was dead-lettered.
    """

    def __init__(self, error: BaseException) -> None:
        self.__cause__ = error
        self._summary = f"{summary_of(error)} at {place_of(error)}"
        text = self._summary
        with suppress(Exception):  # a foreign class may raise anything
            text += f": {error}"
        super().__init__(text)

    @property
    def summary(self) -> str:
        """The class of the exception and its place in the code, without its text."""
        return self._summary


class ValueReturned(RetryableError):
    """A handler returned a value, which nothing would receive. Its writes were not committed.

    Remedy: write the value with `tx.put` or `tx.update`, publish it with `tx.publish`, or return
    nothing. Deploy that before the attempts are used up; redrive what was dead-lettered.
    """


class ConditionFailed(RetryableError):
    """A condition of a handler failed, and the handler gave no `otherwise`.

    Remedy: give the write `otherwise=` a Refusal if the failed condition is an outcome.
    """


class Contention(RetryableError):
    """Other writers kept changing the same items until no time was left.

    Remedy: lower `max_concurrency` of the consumers that write the items, or spread the writes
    over more items.
    """


class InProgress(Contention):
    """Other requests under the key of a command were committing until no time was left.

    Remedy: none: the command may be sent again under its key.
    """


class OutcomeUnknown(RetryableError):
    """DynamoDB gave no answer, and reading the dedup record back gave no outcome either."""


class RequestRefused(RetryableError):
    """DynamoDB refused a request for a reason that may pass: missing rights, a missing table.

    Remedy: grant the right, restore the table, or raise the limit that the error names; the
    message is tried again.
    """


class Throttled(RequestRefused):
    """DynamoDB throttled the message's requests, for lack of capacity, until no time was left.

    Remedy: let the table use on-demand capacity, or raise its provisioned one and that of its
    indexes; if one partition is hot, spread the writes over more keys or lower `max_concurrency`.
    Redrive what was dead-lettered once the table is no longer throttled.
    """


class NotDone(RetryableError):
    """An effect certainly did not happen: the provider refused it, or was never reached.

    Effects raise it. After any other error, except a Refusal or a permanent one, the outcome is
    unknown.
    """


class Unanswered(RetryableError):
    """An effect's outcome is not known yet. It is tried again with the same key and bytes.

    Remedy: none while attempts are left. Of a dead letter: look the effect up at the provider,
    then `once effects settle`.
    """


class KeySpent(RetryableError):
    """Under this key, the provider only returns a saved error, such as a saved 5xx.

    Effects raise it. It is not an outcome: the look-up of the effect decides.

    Remedy: give the effect a look-up; without one, find the outcome at the provider, then `once
    effects settle --not-done --new-key` or `--done`.
    """


class InFlight(RetryableError, reason=Reason.NOT_TRIED):
    """Another delivery may still be calling its effect; its lease ends in `seconds`."""

    def __init__(self, text: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(text)


class Suspended(RetryableError, reason=Reason.NOT_TRIED):
    """The circuit breaker is open: a dependency fails, and the message was not attempted."""


class OutOfTime(RetryableError, reason=Reason.NOT_TRIED):
    """The invocation's time was up before the message's turn."""


class Blocked(RetryableError, reason=Reason.NOT_TRIED):
    """An earlier message of the same FIFO group failed, and order must hold."""


class Refusal(OnceError):
    """A business refusal: subclass it, and answer it with `@consumer.rejects(YourRefusal)`.

    Remedy: answer it with `@consumer.rejects`; the refusal's own writes then commit.
    """


class NoEvent(OnceError):
    """The message is a test of the service that sends the events: acknowledged and counted.

    Remedy: none: it is no event, and nothing is lost.
    """


class MissingExtra(ModuleNotFoundError):
    """A module is missing that an extra of the distribution installs."""


@contextmanager
def extra(name: str, *, remedy: str = "") -> Iterator[None]:
    """Import modules of an extra.

    Args:
        name: the extra.
        remedy: replaces the command that installs the extra, where pip is not the way.

    Raises:
        MissingExtra: a module of the extra is missing; its text names the extra and the remedy.
        ModuleNotFoundError: another module is missing, unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS[name]:
            raise
        text = (
            f"No module named {error.name!r}, which the extra `{name}` of {DISTRIBUTION} installs"
        )
        how = remedy or f"run pip install '{DISTRIBUTION}[{name}]'"
        raise MissingExtra(f"{text}: {how}", name=error.name) from None
