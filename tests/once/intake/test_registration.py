"""Registration: a faulty declaration is refused at load, with the mistake and its remedy."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from once import Call, Consumer, Key, Policy, Refusal, Transaction
from once.effects.declaration import Effect
from once.errors import RegistrationError
from tests.in_memory import Start
from tests.once.effects.provider import Charge, Paid
from tests.once.support import Note, SoldOut, consumer_of, count


def faults(consumer: Consumer) -> tuple[str, ...]:
    with pytest.raises(RegistrationError) as raised:
        consumer.lambda_handler  # noqa: B018
    return raised.value.faults


def each(table: dict[str, list[Consumer]]) -> pytest.MarkDecorator:
    """Parametrise a test by consumers and the pattern of the fault that each of them has."""
    pairs = [(consumer, pattern) for pattern, some in table.items() for consumer in some]
    return pytest.mark.parametrize(("consumer", "pattern"), pairs, ids=[text for _, text in pairs])


def other(event: Note, tx: Transaction) -> None:
    raise NotImplementedError


def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
    raise NotImplementedError


def another_answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
    raise NotImplementedError


def one_argument(event: Any) -> None: ...


def four_arguments(event: Any, refusal: Any, tx: Any, more: Any) -> None: ...


async def asynchronous(*arguments: Any) -> None:
    raise NotImplementedError


def generator(*arguments: Any) -> Iterator[None]:
    yield


async def asynchronous_generator(*arguments: Any) -> Any:
    yield


NEVER_RUN = [asynchronous, generator, asynchronous_generator]


class Renamed(Struct, rename="camel"):
    """A model whose field has another name in the event."""

    order_id: str


def handling(
    *functions: Any,
    name: str = "notes",
    event_type: Any = "noted",
    model: Any = Note,
    **options: Any,
) -> Consumer:
    consumer = Consumer(name)
    for function in functions or (count,):
        consumer.handles(event_type, model, **options)(function)
    return consumer


def rejecting(kind: Any, *functions: Any) -> Consumer:
    consumer = handling()
    for function in functions or (answer,):
        consumer.rejects(kind)(function)
    return consumer


def handling_two_types() -> Consumer:
    consumer = handling()
    consumer.handles("noted.again", Note)(count)
    return consumer


@pytest.mark.parametrize(
    "consumer",
    [
        handling(name="n"),
        handling(name="notes_2"),
        handling(name="n" * 40),
        handling(key=Key.field("name"), volatile=("amount",)),
        handling(model=Renamed, key=Key.field("orderId")),
        handling_two_types(),
        rejecting(SoldOut),
        rejecting(Refusal),
    ],
)
def test_a_valid_registration_is_accepted(consumer: Consumer) -> None:
    assert callable(consumer.lambda_handler)


NAMES = ["", "Notes", "1notes", "no-tes", "no tes", "nötes", "n#", "n" * 41, "notes\n"]
FIELDS: list[dict[str, Any]] = [
    {"key": Key.field("nmae")},
    {"key": Key.field("nmae.id")},
    {"volatile": ("nmae",)},
]


@each(
    {
        **{f"the name {name!r} does not match*": [handling(name=name)] for name in NAMES},
        "notes handles nothing; add a function with @consumer.handles": [Consumer("notes")],
        "*support.count and *.other both handle 'noted'; keep one of them": [
            handling(count, other)
        ],
        "*answer and *another_answer both handle 'SoldOut'; keep one of them": [
            rejecting(SoldOut, answer, another_answer)
        ],
        "*: no event has this type; name a whole CloudEvents `type`*": [
            handling(event_type=event_type)
            for event_type in ("", "  ", "note.*", "noted ", "noted,erased", None)
        ],
        "*support.count for 'noted' has no key rule; give key=Key.event()*": [
            handling(key=key) for key in (None, "name", lambda event: ("x",))
        ],
        "*has a key of no fields, the same for every event;*": [handling(key=Key.field())],
        "*is no model; give a msgspec.Struct, dataclass, TypedDict, *": [
            handling(model=model) for model in (dict, int, Struct(), None, "Note")
        ],
        "*support.count for 'noted' names the field 'nmae*', which Note does not have": [
            handling(**options) for options in FIELDS
        ],
        # Its event would be committed with nothing done.
        "* would never run; make it a plain function": [
            *map(handling, NEVER_RUN),
        ],
        "* rejects *; derive it from once.Refusal": [
            rejecting(kind) for kind in (ValueError, SoldOut("x"), "SoldOut")
        ],
        "* is called with an event and a transaction;*": [
            handling(one_argument),
            handling(four_arguments),
        ],
        "* is called with an event, a refusal and a transaction;*": [
            rejecting(SoldOut, function) for function in (one_argument, four_arguments, *NEVER_RUN)
        ],
    }
)
def test_a_faulty_registration_is_refused(consumer: Consumer, pattern: str) -> None:
    [fault] = faults(consumer)
    assert fnmatchcase(fault, pattern)


def test_all_faults_are_reported_together() -> None:
    consumer = handling(name="No name", volatile=("nmae",))
    consumer.handles("noted", Note)(count)
    consumer.handles("erased", dict, key=Key.event())(count)  # type: ignore[arg-type]
    consumer.rejects(ValueError)(asynchronous)  # type: ignore[type-var, arg-type]
    found = "\n".join(faults(consumer))
    parts = "does not match", "both handle", "'nmae'", "no model", "derive it", "plain function"
    assert [part for part in parts if part not in found] == []
    assert len(faults(handling(model=dict, key=None))) == 2


# Registration of effects: a faulty declaration is refused at load, with its remedy.


LIFETIME = 3600


def charge(request: Charge, call: Call) -> Paid:
    raise NotImplementedError


def find(request: Charge, call: Call) -> Paid | None:
    raise NotImplementedError


def complete(event: Any, outcome: Paid, tx: Transaction) -> None:
    raise NotImplementedError


def with_effect(
    function: Any = charge,
    *,
    look_up: Any = None,
    completions: tuple[Any, ...] = (complete,),
    **options: Any,
) -> Consumer:
    consumer = consumer_of()
    provider_key = {"policy": Policy.PROVIDER_KEY, "key_lifetime_seconds": LIFETIME}
    declaration: Any = {"name": "charge", "model": Charge, **provider_key, **options}
    effect = consumer.effect(**declaration)(function)
    if look_up:
        effect.looks_up(look_up)
    for completion in completions:
        consumer.completes(effect)(completion)
    return consumer


def keyless(policy: Any, **options: Any) -> Consumer:
    return with_effect(policy=policy, key_lifetime_seconds=0, **options)


def with_two_effects_of_one_name() -> Consumer:
    consumer = with_effect()
    consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(find)
    return consumer


def with_completion_only() -> Consumer:
    consumer = consumer_of()
    consumer.completes(with_effect().effects["charge"])(complete)
    return consumer


KEYLESS = [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE]
ALONE = (
    "the effect 'charge' is declared or completed alone; give it both, @consumer.effect and "
    "@consumer.completes"
)


@each(
    {
        "the effect 'charge' has no policy; state one of once.Policy": [
            keyless(policy) for policy in (None, "at-least-once", 1)
        ],
        "*give it with Policy.PROVIDER_KEY, and with no other": [
            keyless(Policy.PROVIDER_KEY),
            with_effect(key_lifetime_seconds=-1),
            *(with_effect(policy=policy) for policy in KEYLESS),
        ],
        "*its name does not match*": [
            with_effect(name=name) for name in ("", " ", "n" * 41, "überweisung\n")
        ],
        "*is no model; give a msgspec.Struct, dataclass, TypedDict, *": [
            with_effect(model=model) for model in (dict, int, None, "Charge", Charge("a", 1))
        ],
        **{
            f"*.{function.__name__} is called with a request and a Call; make it a function of "
            "these two arguments, plain or `async def`": [
                with_effect(function),
                with_effect(look_up=function),
            ]
            for function in (one_argument, four_arguments, generator)
        },
        **{
            f"*.{function.__name__} is called with*make it a plain function of these three "
            "arguments": [with_effect(completions=(function,))]
            for function in (one_argument, four_arguments, asynchronous, generator)
        },
        ALONE: [with_effect(completions=()), with_completion_only()],
        "*find both handle 'the effect charge'; keep one of them": [with_two_effects_of_one_name()],
        "*answer both handle 'the outcome of charge'; keep one of them": [
            with_effect(completions=(complete, answer))
        ],
        "the effect 'charge': a look-up serves Policy.PROVIDER_KEY alone; take it out": [
            keyless(policy, look_up=find) for policy in KEYLESS
        ],
    }
)
def test_a_faulty_effect_is_refused(consumer: Consumer, pattern: str) -> None:
    [fault] = faults(consumer)
    assert fnmatchcase(fault, pattern)


def test_a_completion_of_a_plain_function_is_refused() -> None:
    consumer = consumer_of()
    consumer.completes(charge)(complete)  # type: ignore[arg-type]
    first, second = faults(consumer)
    assert first.endswith("name an effect")
    assert "declared or completed alone" in second


def test_registering_returns_the_effect_and_leaves_the_functions_unchanged() -> None:
    consumer = consumer_of()
    assert consumer.handles("erased", Note)(count) is count
    assert consumer.rejects(SoldOut)(answer) is answer
    effect = consumer.effect("charge", Charge, policy=Policy.AT_LEAST_ONCE)(charge)
    assert consumer.effects == {"charge": effect}
    assert effect.function is charge
    assert effect.looks_up(find) is find
    assert effect.look_up is find
    assert consumer.completes(effect)(complete) is complete


def test_effects_need_a_time_in_the_settings(start: Start) -> None:
    consumer = with_effect()
    runtime = start(consumer).runtime
    with pytest.raises(RegistrationError) as raised:
        consumer.bound_to(runtime)
    assert raised.value.faults == (
        "notes has effects, and no time for them; add effect_timeout_seconds= to "
        "the declaration of 'notes' in the CDK app",
    )
    with_time = replace(runtime.settings, effect_timeout_seconds=1)
    assert callable(consumer.bound_to(replace(runtime, settings=with_time)))


def test_annotations_that_only_type_checkers_can_evaluate_do_not_end_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def charge(request: "Hidden", call: "Hidden") -> Note:  # type: ignore[name-defined]  # noqa: F821
        return Note("a")

    def complete(event: Note, outcome: Note, tx: Transaction) -> None: ...

    def around(step: Any) -> Any:
        yield

    def lazy(function: object, **options: object) -> None:
        raise NameError("name 'Hidden' is not defined")

    effect = Effect[Any, Any]("charge", Note, Policy.AT_LEAST_ONCE, 0, charge)
    assert effect.outcome_type is Note
    # Python 3.14 evaluates annotations when they are looked at, and not before.
    monkeypatch.setattr("inspect.signature", lazy)
    consumer = rejecting(SoldOut, complete)
    consumer.around(around)
    assert callable(consumer.lambda_handler)
