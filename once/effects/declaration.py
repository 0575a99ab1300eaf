"""Effect declarations: calls outside DynamoDB, each with a policy for an unknown outcome.

A DynamoDB transaction cannot include a call to a payment provider. The guarantees of such a call
depend on those of its provider, so each effect states a policy; there is no default.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import cache
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar, get_type_hints, overload

import msgspec
from msgspec import Struct

from once.errors import Refusal
from once.events.models import model_of

_MAX_SCHEMA_BYTES = 2048
"""A longer schema is not kept: each KiB of a record is a write unit."""

RequestT = TypeVar("RequestT")
"""An effect's request."""
OutcomeT = TypeVar("OutcomeT")
"""An effect's outcome."""


class Policy(StrEnum):
    """Rule for an effect whose outcome is not known."""

    PROVIDER_KEY = "provider-key"
    """Call again with the same key while the provider remembers it. It executes the call once."""
    AT_LEAST_ONCE = "at-least-once"
    """Call again. The effect may then happen twice."""
    AT_MOST_ONCE = "at-most-once"
    """Never call again. The effect may not have happened; an operator decides."""


class Call(Struct, frozen=True):
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


class Effect(Struct, Generic[RequestT, OutcomeT], eq=False):
    """A function that calls the outside world. `Consumer.effect` makes one.

    It returns the outcome, or raises

    - a Refusal, which is an outcome too;
    - NotDone or a PermanentError, if the provider has certainly done nothing;
    - any other exception, which leaves the outcome unknown.

    Attributes:
        name: part of the provider's key. It must never change while effects are pending.
        model: the request's model; the request is kept in the dedup record as JSON.
        key_lifetime_seconds: the time for which the provider certainly remembers a key; 0 unless
            the policy is PROVIDER_KEY.
        look_up: asks the provider for the outcome; returns None if the effect certainly did not
            happen.
    """

    name: str
    model: type
    policy: Policy
    key_lifetime_seconds: int
    function: EffectFunction
    look_up: LookUpFunction | None = None

    def looks_up(self, function: LookUpFunction) -> LookUpFunction:
        """Register the function that asks the provider for the outcome of an earlier attempt."""
        self.look_up = function
        return function

    @property
    def outcome_type(self) -> Any:
        """The type of the outcome, which decodes an outcome that the record keeps."""
        return _returned_type(self.function)


class Declared(Struct, frozen=True):
    """The declaration of an effect, which its pending record keeps as JSON: whoever settles the
    effect by hand has no other.

    Attributes:
        returns: the JSON Schema of its outcome; None if its type has none, or a long one.
        refusals: names of the classes of refusals that its consumer answers.
    """

    policy: Policy
    returns: Any = None
    refusals: tuple[str, ...] = ()


@cache
def declared_text(effect: Effect[Any, Any], refusals: tuple[type[Refusal], ...]) -> str:
    """Return the declaration of an effect as JSON; `refusals` are those that are answered."""
    found, names = [*refusals], dict[str, None]()
    while found:
        kind = found.pop(0)
        names[kind.__name__] = None
        found[:0] = kind.__subclasses__()
    returns = model_of(effect.outcome_type).schema
    if len(msgspec.json.encode(returns)) > _MAX_SCHEMA_BYTES:
        returns = None
    return msgspec.json.encode(Declared(effect.policy, returns, tuple(names))).decode()


class EffectDecorator(Protocol[RequestT]):
    """Makes an effect of a function, for type checkers: an `async def` has the awaited outcome."""

    @overload
    def __call__(
        self, function: Callable[[RequestT, Call], Awaitable[OutcomeT]], /
    ) -> Effect[RequestT, OutcomeT]: ...

    @overload
    def __call__(
        self, function: Callable[[RequestT, Call], OutcomeT], /
    ) -> Effect[RequestT, OutcomeT]: ...


def takes(function: Callable[..., object], count: int) -> bool:
    """Return whether a function can be called with so many arguments."""
    try:
        _signature(function).bind(*range(count))
    except TypeError:
        return False
    except (NameError, ValueError):  # it has no signature that can be told: its first call decides
        return True
    return True


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """Return a signature, whose annotations may name what only type checkers import."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


@cache
def _returned_type(function: Callable[..., object]) -> Any:
    """Return the type that a function returns, by its annotation; None if there is none to use."""
    try:
        found = _signature(function).return_annotation
        if isinstance(found, str):  # only this one: the others may name what does not exist
            scope = getattr(inspect.unwrap(function), "__globals__", {})
            hints = SimpleNamespace(__annotations__={"returned": found})
            found = get_type_hints(hints, scope, include_extras=True)["returned"]
        msgspec.json.Decoder(found)  # raises an error for a type that JSON cannot tell apart
    except Exception:  # an annotation may name anything
        return None
    return None if found in (inspect.Signature.empty, type(None)) else found
