"""FakeAws with commands: each runs twice, and an answer or an effect that differs is an error."""

from typing import Any

import pytest
from msgspec.structs import replace

from once import Consumer
from once.commands.answer import Reply
from once.commands.runner import CommandRunner
from once.testing import FakeAws
from tests.once.commands.shop import ORDER, ORDERS, api, shop


def test_a_second_answer_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Reply.stored
    monkeypatch.setattr(Reply, "stored", lambda record: replace(stored(record), body=b'"other"'))
    with shop() as aws, pytest.raises(AssertionError, match="second request had another answer"):
        aws.run("place-order", ORDER)


def test_a_second_effect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = CommandRunner._answered

    def counting(self: CommandRunner, *given: Any) -> Reply:
        aws.given(ORDERS, {"order_id": f"o-{len(aws.items(ORDERS)) + 2}"})
        return answered(self, *given)

    monkeypatch.setattr(CommandRunner, "_answered", counting)
    with shop() as aws, pytest.raises(AssertionError, match="changed the table 'orders'"):
        aws.run("place-order", ORDER)


def test_each_has_its_own_way_in() -> None:
    with shop() as aws, pytest.raises(TypeError, match=r"run\(…\)"):
        aws.deliver({})


def test_a_consumer_has_no_commands() -> None:
    with FakeAws(Consumer("notes"), {}) as aws, pytest.raises(TypeError, match=r"deliver\(…\)"):
        aws.run("do", {})


def test_the_commands_are_those_of_the_function_again_afterwards() -> None:
    with shop():
        assert "runner" in vars(api)
    assert "runner" not in vars(api)
