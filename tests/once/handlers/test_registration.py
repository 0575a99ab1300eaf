"""Registration: what does not add up is refused when the module loads, with culprit and remedy."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from once import Consumer, Key, Refusal, Transaction
from once.errors import RegistrationError
from tests.once.support import Note, SoldOut, consumer_of, count


def faults(consumer: Consumer) -> tuple[str, ...]:
    with pytest.raises(RegistrationError) as raised:
        consumer.lambda_handler  # noqa: B018
    return raised.value.faults


def fault(consumer: Consumer) -> str:
    [only] = faults(consumer)
    return only


def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
    raise NotImplementedError


def test_a_sound_registration_is_accepted() -> None:
    consumer = consumer_of(key=Key.field("name"), volatile=("amount",))
    consumer.rejects(SoldOut)(answer)
    assert callable(consumer.lambda_handler)


def test_registering_leaves_the_function_as_it_was() -> None:
    consumer = Consumer("notes")
    assert consumer.handles("noted", Note)(count) is count
    assert consumer.rejects(SoldOut)(answer) is answer


@pytest.mark.parametrize(
    "name", ["", "Notes", "1notes", "no-tes", "no tes", "nötes", "n#", "n" * 41, "notes\n"]
)
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    consumer = Consumer(name)
    consumer.handles("noted", Note)(count)
    assert fault(consumer).startswith(f"the name {name!r} does not match")


@pytest.mark.parametrize("name", ["n", "notes_2", "n" * 40])
def test_a_name_that_may_be_a_folder_is_accepted(name: str) -> None:
    consumer = Consumer(name)
    consumer.handles("noted", Note)(count)
    assert callable(consumer.lambda_handler)


def test_a_consumer_without_handlers_is_refused() -> None:
    assert fault(Consumer("notes")) == (
        "notes handles nothing; add a function with @consumer.handles"
    )


def test_two_handlers_of_one_type_are_refused_by_name() -> None:
    consumer = consumer_of()

    @consumer.handles("noted", Note)
    def other(event: Note, tx: Transaction) -> None:
        raise NotImplementedError

    text = fault(consumer)
    assert "support.count and " in text
    assert text.endswith("other both handle 'noted'; keep one of them")


def test_one_function_may_handle_two_types() -> None:
    consumer = consumer_of()
    consumer.handles("noted.again", Note)(count)
    assert callable(consumer.lambda_handler)


def test_two_answers_to_one_refusal_are_refused() -> None:
    consumer = consumer_of()
    consumer.rejects(SoldOut)(answer)
    consumer.rejects(SoldOut)(functools.wraps(answer)(lambda *arguments: None))
    assert fault(consumer).endswith("both handle 'SoldOut'; keep one of them")


@pytest.mark.parametrize("event_type", ["", "  "])
def test_a_blank_event_type_is_refused(event_type: str) -> None:
    consumer = Consumer("notes")
    consumer.handles(event_type, Note)(count)
    assert "the event type is blank" in fault(consumer)


@pytest.mark.parametrize("key", [None, "name", lambda event: ("x",)])
def test_a_handler_without_a_key_rule_is_refused(key: Any) -> None:
    text = fault(consumer_of(key=key))
    assert "support.count for 'noted' has no key rule; give key=Key.event()" in text


def test_a_key_of_no_fields_at_all_is_refused() -> None:
    # It would be one key for every event of the type.
    assert "key" in fault(consumer_of(key=Key.field()))


@pytest.mark.parametrize("model", [dict, int, Struct(), None, "Note"])
def test_a_model_that_is_no_model_is_refused(model: Any) -> None:
    consumer = Consumer("notes")
    consumer.handles("noted", model)(count)
    assert "is no model; give a msgspec.Struct" in fault(consumer)


@pytest.mark.parametrize(
    "options",
    [{"key": Key.field("nmae")}, {"key": Key.field("nmae.id")}, {"volatile": ("nmae",)}],
)
def test_a_field_that_the_model_does_not_have_is_refused(options: dict[str, Any]) -> None:
    text = fault(consumer_of(**options))
    assert text.endswith(
        "support.count for 'noted' names the field 'nmae', which Note does not have"
    )


def test_a_field_is_known_by_its_name_in_the_event() -> None:
    class Renamed(Struct, rename="camel"):
        order_id: str

    consumer = Consumer("notes")
    consumer.handles("noted", Renamed, key=Key.field("orderId"))(count)
    assert callable(consumer.lambda_handler)


async def asynchronous(*arguments: Any) -> None:
    raise NotImplementedError


def generator(*arguments: Any) -> Iterator[None]:
    yield


async def asynchronous_generator(*arguments: Any) -> Any:
    yield


NEVER_RUN = [asynchronous, generator, asynchronous_generator]


@pytest.mark.parametrize("function", NEVER_RUN)
def test_a_handler_that_would_never_run_is_refused(function: Any) -> None:
    # Its event would be committed with nothing done.
    assert "would never run; make it a plain function" in fault(consumer_of(function))


@pytest.mark.parametrize("function", NEVER_RUN)
def test_an_answer_that_would_never_run_is_refused(function: Any) -> None:
    consumer = consumer_of()
    consumer.rejects(SoldOut)(function)
    assert "would never run; make it a plain function" in fault(consumer)


@pytest.mark.parametrize("kind", [ValueError, SoldOut("x"), "SoldOut"])
def test_an_answer_to_what_is_no_refusal_is_refused(kind: Any) -> None:
    consumer = consumer_of()
    consumer.rejects(kind)(answer)
    assert "derive it from once.Refusal" in fault(consumer)


def test_the_root_of_refusals_may_be_answered() -> None:
    consumer = consumer_of()
    consumer.rejects(Refusal)(answer)
    assert callable(consumer.lambda_handler)


def test_all_faults_are_reported_together() -> None:
    consumer = Consumer("No name")
    consumer.handles("noted", Note, volatile=("nmae",))(count)
    consumer.handles("noted", Note)(count)
    consumer.handles("erased", dict, key=Key.event())(count)
    consumer.rejects(ValueError)(asynchronous)  # type: ignore[arg-type]
    found = "\n".join(faults(consumer))
    expected = (
        "does not match",
        "both handle",
        "'nmae'",
        "is no model",
        "derive it",
        "would never run",
    )
    assert [part for part in expected if part not in found] == []


def test_a_bad_key_rule_does_not_hide_a_bad_model() -> None:
    consumer = Consumer("notes")
    consumer.handles("noted", dict, key=None)(count)  # type: ignore[arg-type]
    assert len(faults(consumer)) == 2


def one_argument(event: Any) -> None: ...


def four_arguments(event: Any, refusal: Any, tx: Any, more: Any) -> None: ...


@pytest.mark.parametrize("function", [one_argument, four_arguments])
def test_a_handler_that_cannot_be_called_is_refused(function: Any) -> None:
    assert "is called with an event and a transaction" in fault(consumer_of(function))


@pytest.mark.parametrize("function", [one_argument, four_arguments])
def test_an_answer_that_cannot_be_called_is_refused(function: Any) -> None:
    consumer = consumer_of()
    consumer.rejects(SoldOut)(function)
    assert "is called with an event, a refusal and a transaction" in fault(consumer)
