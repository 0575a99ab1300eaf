"""The failure tree: the one in the documentation is the one in the code."""

import inspect
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from once import errors
from once.error_text import summary_of
from once.errors import (
    ConfigurationError,
    InFlight,
    OnceError,
    PermanentError,
    Refusal,
    RetryableError,
    Unexpected,
)
from once.outbox import unrouted
from once.schema import Reason

LINE = re.compile(r"^(?P<lead>[│ ]*(?:[├└]── )?)(?P<name>[A-Z]\w+)", re.MULTILINE)


def documented() -> dict[str, str]:
    """Each class of the docstring's tree, and the one above it."""
    tree = (errors.__doc__ or "").split("\n\n")[1]
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in LINE.finditer(tree):
        depth = len(line["lead"]) // 4
        above[depth:] = [line["name"]]
        parents[line["name"]] = above[depth - 1] if depth else "Exception"
    return parents


def defined() -> dict[str, str]:
    classes = (c for _, c in inspect.getmembers(errors, inspect.isclass))
    return {c.__name__: c.__bases__[0].__name__ for c in classes if c.__module__ == "once.errors"}


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert documented() == defined()


def permanent() -> list[type[PermanentError]]:
    return [PermanentError, *PermanentError.__subclasses__()]


def test_every_permanent_error_has_a_reason_of_its_own() -> None:
    ours = [kind for kind in permanent() if kind.__module__ in {"once.errors", unrouted.__name__}]
    others = {Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED}
    assert {kind.reason for kind in ours} == set(Reason) - others
    assert len(ours) == len({kind.reason for kind in ours})


def test_the_summary_of_an_error_does_not_quote_it() -> None:
    assert PermanentError("secret").summary == "PermanentError"


def test_what_was_raised_unexpectedly_is_summed_up_by_its_kind_and_place() -> None:
    unexpected = Unexpected(_caught())
    assert re.fullmatch(r"ZeroDivisionError at _caught:\d+", unexpected.summary)
    assert "secret" in str(Unexpected(ValueError("secret")))
    assert Unexpected(ValueError("secret")).summary == "ValueError at an unknown place"


def _caught() -> Exception:
    try:
        return ValueError(1 / 0)
    except ZeroDivisionError as error:
        return error


@pytest.mark.parametrize(
    ("response", "summary"),
    [
        ({"Error": {"Code": "Throttled", "Message": "secret"}}, "ClientError Throttled"),
        ({"Error": {}}, "ClientError"),
        ({}, "ClientError"),
    ],
)
def test_the_summary_of_an_aws_error_has_its_code_and_not_its_text(
    response: Any, summary: str
) -> None:
    assert summary_of(ClientError(response, "Put")) == summary


def test_the_summary_of_an_error_that_had_no_response_is_its_kind() -> None:
    # Such as those of requests, whose response may be None.
    error = ValueError("secret")
    error.response = None  # type: ignore[attr-defined]
    assert summary_of(error) == "ValueError"


def test_in_flight_says_for_how_long_at_most() -> None:
    error = InFlight(29.6)
    assert error.seconds == 29.6
    assert str(error) == "another delivery is at its effect for at most 30 s more"


def test_a_refusal_is_no_failure() -> None:
    assert not issubclass(Refusal, PermanentError | RetryableError)


@pytest.mark.parametrize("kind", [ConfigurationError, *ConfigurationError.__subclasses__()])
def test_a_configuration_error_lists_every_fault(kind: type[ConfigurationError]) -> None:
    error = kind(["one is wrong", "two is wrong"])
    assert isinstance(error, OnceError)
    assert error.faults == ("one is wrong", "two is wrong")
    assert str(error) == f"{kind.heading}:\n  - one is wrong\n  - two is wrong"
