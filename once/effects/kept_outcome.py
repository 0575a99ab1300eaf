"""Kept outcome: an effect's outcome as JSON in the pending record, until it is committed.

It is kept if its commit fails, or if an operator found it out. The next delivery commits it without
another call. Each outcome that a provider returns is compared with what could be kept of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from once.effects.declaration import Effect
from once.errors import EffectUnknown, Refusal, UnhandledRefusal


class NotKept(Exception):
    """The outcome cannot be restored from JSON as it was."""


class _Kept(msgspec.Struct, frozen=True):
    """`returned` is what the effect returns; or `refused` names the class of its Refusal."""

    returned: msgspec.Raw = msgspec.Raw(b"null")
    refused: str | None = None
    arguments: tuple[Any, ...] = ()


def returned_text(outcome: bytes) -> str:
    """Return the kept form of an outcome that an effect returns, given as JSON."""
    return msgspec.json.encode({"returned": msgspec.Raw(outcome)}).decode()


def refused_text(name: str, arguments: Sequence[Any]) -> str:
    """Return the kept form of a Refusal: the name of its class, and its arguments."""
    return msgspec.json.encode({"refused": name, "arguments": arguments}).decode()


def kept_text(effect: Effect, outcome: Any) -> str:
    """Return the kept form of an outcome.

    Raises:
        NotKept: it has no JSON form, or could not be restored from it.
    """
    try:
        if isinstance(outcome, Refusal):
            text = refused_text(type(outcome).__name__, outcome.args)
            again = type(outcome)(*_arguments(text))
            is_same = (again.args, vars(again)) == (outcome.args, vars(outcome))
        else:
            encoded = msgspec.json.encode(outcome)
            text = returned_text(encoded)
            is_same = msgspec.json.decode(encoded, type=effect.outcome_type) == outcome
    except Exception as error:  # a user's class may raise anything
        raise NotKept(str(error)) from error
    if not is_same:
        raise NotKept("read back from JSON, it is not equal")
    return text


def restored(effect: Effect, text: str, refusals: Iterable[type[Refusal]]) -> Any:
    """Return the outcome of a kept form. A Refusal is returned, not raised.

    Args:
        effect: the effect; its outcome is decoded as the type that its function returns.
        text: the kept form.
        refusals: the classes that the consumer answers with `@consumer.rejects`.

    Raises:
        EffectUnknown: the kept outcome is not of the effect's type.
        UnhandledRefusal: the consumer has no answer to the refusal.
    """
    try:
        kept = msgspec.json.decode(text, type=_Kept)
        if kept.refused is None:
            return msgspec.json.decode(kept.returned, type=effect.outcome_type)
        return _refusal_class(kept.refused, refusals)(*kept.arguments)
    except UnhandledRefusal:
        raise
    except Exception as error:  # a user's class may raise anything
        raise EffectUnknown(
            f"the outcome in the record does not fit the effect {effect.name!r}: settle it again "
            f"with `once effects settle`, or bring the type back: {error}"
        ) from None


def _arguments(text: str) -> tuple[Any, ...]:
    return msgspec.json.decode(text, type=_Kept).arguments


def _refusal_class(name: str, known: Iterable[type[Refusal]]) -> type[Refusal]:
    for kind in known:
        for found in _with_subclasses(kind):
            if found.__name__ == name:
                return found
    raise UnhandledRefusal(
        f"the outcome in the record is the refusal {name}: add @consumer.rejects for its class, or "
        "settle the effect again with `once effects settle`"
    )


def _with_subclasses(kind: type[Refusal]) -> Iterator[type[Refusal]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)
