"""Registration: a faulty declaration is refused at load, with the mistake and its remedy."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Key, Refusal, Transaction
from once.errors import RegistrationError
from tests.once.support import Note, SoldOut, count


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
        "*is no model; give a msgspec.Struct": [
            handling(model=model) for model in (dict, int, Struct(), None, "Note")
        ],
        "*support.count for 'noted' names the field 'nmae', which Note does not have": [
            handling(**options) for options in FIELDS
        ],
        # Its event would be committed with nothing done.
        "* would never run; make it a plain function": [
            *map(handling, NEVER_RUN),
            *(rejecting(SoldOut, function) for function in NEVER_RUN),
        ],
        "* rejects *; derive it from once.Refusal": [
            rejecting(kind) for kind in (ValueError, SoldOut("x"), "SoldOut")
        ],
        "* is called with an event and a transaction;*": [
            handling(one_argument),
            handling(four_arguments),
        ],
        "* is called with an event, a refusal and a transaction;*": [
            rejecting(SoldOut, one_argument),
            rejecting(SoldOut, four_arguments),
        ],
    }
)
def test_a_faulty_registration_is_refused(consumer: Consumer, pattern: str) -> None:
    [fault] = faults(consumer)
    assert fnmatchcase(fault, pattern)


def test_registering_returns_the_function_unchanged() -> None:
    consumer = Consumer("notes")
    assert consumer.handles("noted", Note)(count) is count
    assert consumer.rejects(SoldOut)(answer) is answer


def test_all_faults_are_reported_together() -> None:
    consumer = handling(name="No name", volatile=("nmae",))
    consumer.handles("noted", Note)(count)
    consumer.handles("erased", dict, key=Key.event())(count)
    consumer.rejects(ValueError)(asynchronous)  # type: ignore[arg-type]
    found = "\n".join(faults(consumer))
    parts = "does not match", "both handle", "'nmae'", "no model", "derive it", "would never run"
    assert [part for part in parts if part not in found] == []
    assert len(faults(handling(model=dict, key=None))) == 2
