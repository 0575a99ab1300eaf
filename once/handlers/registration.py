"""Registrations of a consumer: its handlers and its answers to refusals, with their checks."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from once.errors import Refusal
from once.events.dedup_key import Key
from once.handlers._signatures import field_names, name_of, takes, would_never_run
from once.handlers.transaction import Transaction
from once.schema import EVENT_TYPE
from once.source import Source, key_rule_fault

if TYPE_CHECKING:
    from once.handlers.former_records import FormerRecords

HandlerFunction = Callable[[Any, Transaction], None]
RefusalFunction = Callable[[Any, Any, Transaction], None]


@dataclass(frozen=True, slots=True)
class Handler:
    """A function for one event type, the model of its data, and the event's key rule.

    `former` are the records of the deduplication that Once replaces, if they still count.
    """

    event_type: str
    model: type
    function: HandlerFunction
    key: Key
    volatile: frozenset[str]
    former: "FormerRecords | None" = None

    def faults(self) -> Iterator[str]:
        """Yield the mistakes in the registration, each with its remedy."""
        place = f"{name_of(self.function)} for {self.event_type!r}"
        if not (isinstance(self.event_type, str) and EVENT_TYPE.fullmatch(self.event_type)):
            yield (
                f"{place}: no event has this type; name a whole CloudEvents `type`, without "
                "commas, asterisks and outer spaces"
            )
        if would_never_run(self.function):
            yield f"{place} would never run; make it a plain function"
        if not takes(self.function, 2):
            yield f"{place} is called with an event and a transaction; give it these two arguments"
        yield from (f"{place} {fault}" for fault in self._key_faults())
        known = field_names(self.model)
        if known is None:
            yield f"{place}: {self.model!r} is no model; give a msgspec.Struct"
            return
        for name in sorted(self._fields_used() - known):
            yield f"{place} names the field {name!r}, which {self.model.__name__} does not have"

    def source_faults(self, source: Source | None) -> Iterator[str]:
        """Yield the mistake of a key rule that cannot identify the events of this source."""
        if source is None or not isinstance(self.key, Key):
            return
        if fault := key_rule_fault(self.key.rule, source):
            yield f"{name_of(self.function)} for {self.event_type!r} {fault}"

    def _key_faults(self) -> Iterator[str]:
        if not isinstance(self.key, Key):
            yield "has no key rule; give key=Key.event(), or another rule of once.Key"
        elif self.key.rule == "field" and not self.key.names:
            yield "has a key of no fields, the same for every event; name one in Key.field(…)"

    def _fields_used(self) -> set[str]:
        paths = self.key.fields if isinstance(self.key, Key) else ()
        return {path.split(".")[0] for path in paths} | self.volatile


@dataclass(frozen=True, slots=True)
class Rejection:
    """A function that answers a business refusal."""

    refusal: type[Refusal]
    function: RefusalFunction

    def faults(self) -> Iterator[str]:
        """Yield the mistakes in the registration, each with its remedy."""
        if not (inspect.isclass(self.refusal) and issubclass(self.refusal, Refusal)):
            yield f"{name_of(self.function)} rejects {self.refusal!r}; derive it from once.Refusal"
        if would_never_run(self.function):
            yield f"{name_of(self.function)} would never run; make it a plain function"
        if not takes(self.function, 3):
            yield (
                f"{name_of(self.function)} is called with an event, a refusal and a transaction; "
                "give it these three arguments"
            )


def twice(what: object, first: Callable[..., None], second: Callable[..., None]) -> str:
    """Return the message for two functions that are registered for the same thing."""
    return f"{name_of(first)} and {name_of(second)} both handle {what!r}; keep one of them"
