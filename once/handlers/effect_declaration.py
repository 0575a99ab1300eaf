"""Effect declarations: calls outside DynamoDB, each with a policy for an unknown outcome.

A DynamoDB transaction cannot include a call to a payment provider. The guarantees of such a call
depend on those of its provider, so each effect states a policy; there is no default.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from once.handlers._signatures import (
    field_names,
    name_of,
    returned_type,
    takes,
    would_never_run,
)
from once.schema import CONSUMER_NAME

if TYPE_CHECKING:
    import msgspec


class Policy(StrEnum):
    """Rule for an effect whose outcome is not known."""

    PROVIDER_KEY = "provider-key"
    """Call again with the same key while the provider remembers it. It executes the call once."""
    AT_LEAST_ONCE = "at-least-once"
    """Call again. The effect may then happen twice."""
    AT_MOST_ONCE = "at-most-once"
    """Never call again. The effect may not have happened; an operator decides."""


@dataclass(frozen=True, slots=True)
class Call:
    """The terms of one attempt at an effect.

    Attributes:
        key: the idempotency key. It is the same in every attempt, unless the provider has saved an
            error under it; then a new one replaces it.
        timeout_seconds: the longest time for the call. Lambda ends the function shortly after.
        request: the request as JSON, as the dedup record keeps it: equal bytes in every attempt,
            even if the model has changed meanwhile.
    """

    key: str
    timeout_seconds: float
    request: bytes = b""


EffectFunction = Callable[[Any, Call], Any]
LookUpFunction = Callable[[Any, Call], Any]


@dataclass(slots=True, eq=False)
class Effect:
    """A function that calls the outside world. `Consumer.effect` makes one.

    It returns the outcome, or raises

    - a Refusal, which is an outcome too;
    - NotDone or a PermanentError, if the provider has certainly done nothing;
    - any other exception, which leaves the outcome unknown.

    Attributes:
        name: part of the provider's key. It must never change while effects are pending.
        model: a msgspec.Struct; the request as it is kept in the dedup record.
        policy: the rule for an unknown outcome.
        key_lifetime_seconds: the time for which the provider certainly remembers a key; 0 unless
            the policy is PROVIDER_KEY.
        function: the call.
        look_up: asks the provider for the outcome; returns None if the effect certainly did not
            happen.
    """

    name: str
    model: "type[msgspec.Struct]"
    policy: Policy
    key_lifetime_seconds: int
    function: EffectFunction
    look_up: LookUpFunction | None = field(default=None, init=False)

    def looks_up(self, function: LookUpFunction) -> LookUpFunction:
        """Register the function that asks the provider for the outcome of an earlier attempt."""
        self.look_up = function
        return function

    @property
    def outcome_type(self) -> Any:
        """The type of the outcome, which decodes an outcome that the record keeps."""
        return returned_type(self.function)

    def faults(self) -> Iterator[str]:
        """Yield the mistakes in the declaration, each with its remedy."""
        place = f"the effect {self.name!r}"
        if not CONSUMER_NAME.fullmatch(self.name):  # part of the key, which is sent as a header
            yield f"{place}: its name does not match {CONSUMER_NAME.pattern}"
        if not isinstance(self.policy, Policy):
            yield f"{place} has no policy; state one of once.Policy"
        if (self.policy is Policy.PROVIDER_KEY) != (self.key_lifetime_seconds > 0):
            yield (
                f"{place}: key_lifetime_seconds is how long the provider remembers a key; give it "
                "with Policy.PROVIDER_KEY, and with no other"
            )
        if field_names(self.model) is None:
            yield f"{place}: {self.model!r} is no model; give a msgspec.Struct"
        if self.look_up is not None and self.policy is not Policy.PROVIDER_KEY:
            yield f"{place}: a look-up serves Policy.PROVIDER_KEY alone; take it out"
        for function in filter(None, (self.function, self.look_up)):
            if would_never_run(function) or not takes(function, 2):
                yield (
                    f"{place}: {name_of(function)} is called with a request and a Call; make it a "
                    "plain function of these two arguments"
                )
            elif function is self.function and self.outcome_type is None:
                yield (
                    f"{place}: {name_of(function)} does not say what it returns; annotate it with "
                    "a type that JSON can hold, such as a msgspec.Struct"
                )


CompletionFunction = Callable[[Any, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Completion:
    """A function that fills the transaction for an effect's outcome."""

    effect: Effect
    function: CompletionFunction

    def faults(self) -> Iterator[str]:
        """Yield the mistakes in the registration, each with its remedy."""
        if not isinstance(self.effect, Effect):
            yield f"{name_of(self.function)} completes {self.effect!r}; name an effect"
        if would_never_run(self.function) or not takes(self.function, 3):
            yield (
                f"{name_of(self.function)} is called with an event, an outcome and a transaction; "
                "make it a plain function of these three arguments"
            )
