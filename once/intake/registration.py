"""Registrations of a consumer, with their checks.

They are its handlers, its rejections, its effects, and the functions that complete those. The
`faults` of one are the mistakes in it, each with its remedy.
"""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

from msgspec import Struct

from once.business_tables import ItemT, Table
from once.effects.declaration import Effect, Policy, takes
from once.errors import ConfigurationError, Refusal, UnhandledRefusal
from once.event_sources import Source, key_rule_fault
from once.events.identity import Key
from once.events.models import MODELS, is_model, model_of
from once.names import CONSUMER_NAME, EVENT_TYPE, EVENT_TYPE_RULE
from once.settings import CommitSettings, Settings
from once.transaction import Transaction

if TYPE_CHECKING:
    from once.former_records import FormerRecords

_REMEDY = "deploy it with dedup=Dedup.RECORD"

HandlerFunction = Callable[[Any, Transaction], Any]
RefusalFunction = Callable[[Any, Any, Transaction], Any]
CompletionFunction = Callable[[Any, Any, Transaction], None]


class Handler(Struct, frozen=True):
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
        place = f"{_name_of(self.function)} for {self.event_type!r}"
        if not (isinstance(self.event_type, str) and EVENT_TYPE.fullmatch(self.event_type)):
            yield (
                f"{place}: no event has this type; name a whole CloudEvents `type`, "
                f"{EVENT_TYPE_RULE}"
            )
        if _would_never_run(self.function):
            yield f"{place} would never run; make it a plain function"
        if not takes(self.function, 2):
            yield f"{place} is called with an event and a transaction; give it these two arguments"
        key = self.key if isinstance(self.key, Key) else None
        if key is None:
            yield f"{place} has no key rule; give key=Key.event(), or another rule of once.Key"
        elif key.rule == "field" and not key.names:
            yield (
                f"{place} has a key of no fields, the same for every event; name one in "
                "Key.field(…)"
            )
        if not is_model(self.model):
            yield f"{place}: {self.model!r} is no model; give {MODELS}"
            return
        model = model_of(self.model)
        yield from (f"{place}: {fault}" for fault in model.faults)
        if model.faults:
            return
        paths = {path: path.split(".") for path in key.fields} if key else {}
        for name, steps in sorted((paths | {name: [name] for name in self.volatile}).items()):
            if not model.reaches(*steps):
                yield f"{place} names the field {name!r}, which {model.name} does not have"

    def source_faults(self, source: Source | None) -> Iterator[str]:
        """Yield the mistake of a key rule that cannot identify the events of this source."""
        if source is None or not isinstance(self.key, Key):
            return
        if fault := key_rule_fault(self.key.rule, source):
            yield f"{_name_of(self.function)} for {self.event_type!r} {fault}"


class Rejection(Struct, frozen=True):
    """A function that answers a business refusal."""

    refusal: type[Refusal]
    function: RefusalFunction

    def faults(self) -> Iterator[str]:
        if not (inspect.isclass(self.refusal) and issubclass(self.refusal, Refusal)):
            yield f"{_name_of(self.function)} rejects {self.refusal!r}; derive it from once.Refusal"
        yield from _answer_faults(self.function, "a refusal")


class Completion(Struct, frozen=True):
    """A function that fills the transaction for an effect's outcome."""

    effect: Effect[Any, Any]
    function: CompletionFunction

    def faults(self) -> Iterator[str]:
        if not isinstance(self.effect, Effect):
            yield f"{_name_of(self.function)} completes {self.effect!r}; name an effect"
        yield from _answer_faults(self.function, "an outcome")


_made: list["Registered"] = []


def _check_when_loaded(made: "Registered") -> None:
    """Let Lambda's runtime find an error of the registration when it has loaded the function.

    A `lambda_handler` of the user's own reads the consumer's in an invocation. An error would come
    too late there: the deployment has succeeded, and each message fails. So the check runs when the
    runtime takes the entry from its module, which is after the whole module was run.
    """
    path, _, name = os.environ.get("_HANDLER", "").rpartition(".")  # Lambda sets it
    module = sys.modules.get(path.replace("/", "."))
    if module is None:
        return
    _made.append(made)
    if type(module) is ModuleType:
        entry = property(partial(_checked_entry, name))
        module.__class__ = type("EntryModule", (ModuleType,), {name: entry})


def _checked_entry(name: str, module: ModuleType) -> Any:
    if name not in vars(module):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    errors = []
    # The module may import another one for its models, whose consumer this function does not run.
    for each in reversed(_made):
        try:
            each.start()
        except ConfigurationError as error:
            errors.append(error)
        else:
            return vars(module)[name]
    raise errors[0]


class Registered:
    """Handlers and rejections by name, each checked once all of them are there.

    Args:
        name: the first part of every dedup key. It must never change while messages or records
            live.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.handlers: dict[str, Handler] = {}
        self.rejections: dict[type[Refusal], Rejection] = {}
        self.tables: set[str] = set()
        self._modelled: list[Table[Any]] = []
        self._faults: list[str] = []
        _check_when_loaded(self)

    def start(self) -> None:
        """Check the registration against the settings of the deployed function.

        Raises:
            ConfigurationError: registration or settings are not valid.
        """
        raise NotImplementedError

    @overload
    def table(self, name: str) -> Table[dict[str, Any]]: ...

    @overload
    def table(self, name: str, model: type[ItemT]) -> Table[ItemT]: ...

    def table(self, name: str, model: Any = None) -> Table[Any]:
        """Declare a table that the handlers use, by its name in the declaration.

        With a model, `Transaction.get` returns its items as objects of the model, and
        `Transaction.put` takes such objects.
        """
        self.tables.add(name)
        made = Table(name, model)
        self._modelled += [made] if model is not None else []
        return made

    def _register(self, known: dict[Any, Any], name: object, made: Any, what: str) -> None:
        first = known.setdefault(name, made)
        if first is not made:
            self._faults.append(twice(what, first.function, made.function))

    def _registration_faults(self) -> Iterator[str]:
        yield from self._faults
        if not CONSUMER_NAME.fullmatch(self.name):
            yield f"the name {self.name!r} does not match {CONSUMER_NAME.pattern}"
        for table in self._modelled:
            yield from table_faults(table)
        for handler in self.handlers.values():
            yield from handler.faults()
        for rejection in self.rejections.values():
            yield from rejection.faults()

    def _deployment_faults(self, settings: CommitSettings, place: str) -> Iterator[str]:
        if self.name != settings.consumer:
            yield (
                f"the handler is of {self.name!r}, and the function is deployed for "
                f"{settings.consumer!r}"
            )
        for name in sorted(self.tables - set(settings.tables)):
            yield (
                f"{self.name} uses the table {name!r}, which it may not; add it to tables= of "
                f"{place}"
            )


def rejection_of(
    rejections: Mapping[type[Refusal], Rejection], refusal: Refusal | None
) -> Rejection:
    """Return the rejection for the class of a refusal, or for the nearest of its base classes.

    Raises:
        UnhandledRefusal: there is none.
    """
    found = (rejections[kind] for kind in type(refusal).__mro__ if kind in rejections)
    rejection = next(found, None)
    if rejection is None:
        raise UnhandledRefusal(f"{refusal!r} has no answer: add @consumer.rejects for its class")
    return rejection


def refused_twice(refusal: Refusal) -> UnhandledRefusal:
    """Return the error of a rejection that raises a Refusal itself, or whose commit is refused."""
    return UnhandledRefusal(f"the answer to a refusal was refused itself: {refusal!r}")


def _answer_faults(function: Callable[..., object], what: str) -> Iterator[str]:
    if _would_never_run(function) or not takes(function, 3):
        yield (
            f"{_name_of(function)} is called with an event, {what} and a transaction; make it a "
            "plain function of these three arguments"
        )


def effect_faults(effect: Effect[Any, Any]) -> Iterator[str]:
    place = f"the effect {effect.name!r}"
    if not CONSUMER_NAME.fullmatch(effect.name):  # part of the key, which is sent as a header
        yield f"{place}: its name does not match {CONSUMER_NAME.pattern}"
    if not isinstance(effect.policy, Policy):
        yield f"{place} has no policy; state one of once.Policy"
    if (effect.policy is Policy.PROVIDER_KEY) != (effect.key_lifetime_seconds > 0):
        yield (
            f"{place}: key_lifetime_seconds is how long the provider remembers a key; give it "
            "with Policy.PROVIDER_KEY, and with no other"
        )
    yield from _model_faults(place, effect.model)
    if effect.look_up is not None and effect.policy is not Policy.PROVIDER_KEY:
        yield f"{place}: a look-up serves Policy.PROVIDER_KEY alone; take it out"
    for function in filter(None, (effect.function, effect.look_up)):
        if _would_never_run(function, is_awaited=True) or not takes(function, 2):
            yield (
                f"{place}: {_name_of(function)} is called with a request and a Call; make it a "
                "function of these two arguments, plain or `async def`"
            )
        elif function is effect.function and effect.outcome_type is None:
            yield (
                f"{place}: {_name_of(function)} does not say what it returns; annotate it with "
                "a type that JSON can hold, such as a msgspec.Struct, and import the type at run "
                "time, not under TYPE_CHECKING"
            )
        elif function is effect.function:
            outcome = model_of(effect.outcome_type)
            yield from (
                f"{place}: its outcome: {fault}"
                for fault in (*outcome.faults, *outcome.write_faults)
            )


def table_faults(table: Table[Any]) -> Iterator[str]:
    yield from _model_faults(f"table({table.name!r})", table.model)


def _model_faults(place: str, model: Any) -> Iterator[str]:
    if not is_model(model):
        yield f"{place}: {model!r} is no model; give {MODELS}"
        return
    found = model_of(model)
    yield from (f"{place}: {fault}" for fault in (*found.faults, *found.write_faults))


def twice(what: object, first: Callable[..., Any], second: Callable[..., Any]) -> str:
    """Return the message for two functions that are registered for the same thing."""
    return f"{_name_of(first)} and {_name_of(second)} both handle {what!r}; keep one of them"


def item_dedup_faults(
    handlers: Collection[Handler], effects: Collection[str], settings: Settings
) -> Iterator[str]:
    """Yield the parts of a registration that item dedup cannot commit, each with its remedy."""
    place = f"{settings.consumer} keeps its dedup records on the items that it writes, and"
    if effects or settings.publishes:
        yield f"{place} has effects or publishes events, which need a record: {_REMEDY}"
    if len(settings.tables) != 1:
        yield f"{place} has {len(settings.tables)} tables: give it one, or {_REMEDY}"
        return
    if any(handler.former is not None for handler in handlers):
        yield f"{place} has handlers with former=, which need a record of their own: {_REMEDY}"
    [table] = settings.tables.values()
    for handler in handlers:
        if len(handler.key.fields) != len(table.key):
            names = ", ".join(table.key)
            yield (
                f"{place} the key of {handler.event_type!r} is not that of an item of "
                f"{table.name}: give key=Key.field(…) with one field for each of {names}, or "
                f"{_REMEDY}"
            )


def _would_never_run(function: Callable[..., object], *, is_awaited: bool = False) -> bool:
    """Return whether a call of the function only makes a coroutine or a generator.

    As a handler, it would let its event commit without doing anything.
    """
    return (
        (inspect.iscoroutinefunction(function) and not is_awaited)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _name_of(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
