"""The error tree, its documentation, and the texts of its errors."""

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from once import errors
from once.commit import _former_records
from once.errors import (
    ConfigurationError,
    OnceError,
    PermanentError,
    Refusal,
    RetryableError,
    Unexpected,
    summary_of,
)
from once.events import claim_check
from once.names import Reason
from once.outbox import unrouted

MODULES = {m.__name__ for m in (errors, claim_check, unrouted, _former_records)}


def test_every_permanent_error_has_a_reason_of_its_own() -> None:
    kinds: list[type[PermanentError]] = [PermanentError, *PermanentError.__subclasses__()]
    ours = [kind for kind in kinds if kind.__module__ in MODULES]
    others = {Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED, Reason.CLAIM_MISSING}  # retried before
    assert {kind.reason for kind in ours} == set(Reason) - others
    assert len(ours) == len({kind.reason for kind in ours})


def _raised() -> Exception:
    try:
        return ValueError(1 / 0)
    except ZeroDivisionError as error:
        return error


def _raised_in_another_package() -> Exception:
    try:
        return ValueError(json.loads("{"))
    except json.JSONDecodeError as error:
        return error


def _with_response(response: Any) -> ValueError:
    # The response of an error of requests, for example, may be None.
    error = ValueError("secret")
    error.response = response  # type: ignore[attr-defined]
    return error


SECRET: Any = {"Error": {"Code": "Throttled", "Message": "secret"}}
SUMMARIES: dict[str, tuple[Exception, str]] = {
    "permanent": (PermanentError("secret"), "PermanentError"),
    "AWS": (ClientError(SECRET, "Put"), "ClientError Throttled"),
    "AWS without code": (ClientError({"Error": {}}, "Put"), "ClientError"),
    "AWS without error": (ClientError({}, "Put"), "ClientError"),
    "no response": (_with_response(None), "ValueError"),
    "unexpected": (Unexpected(_raised()), r"ZeroDivisionError at _raised:\d+"),
    "of another package": (
        Unexpected(_raised_in_another_package()),
        r"JSONDecodeError at _raised_in_another_package:\d+",
    ),
    "not raised": (Unexpected(ValueError("secret")), "ValueError at an unknown place"),
}


@pytest.mark.parametrize(("error", "summary"), SUMMARIES.values(), ids=SUMMARIES)
def test_the_summary_of_an_error_has_its_class_and_code_and_not_its_text(
    error: Exception, summary: str
) -> None:
    found = error.summary if isinstance(error, OnceError) else summary_of(error)
    assert re.fullmatch(summary, found)


def test_the_text_of_an_unexpected_error_is_kept() -> None:
    assert "secret" in str(Unexpected(ValueError("secret")))


def test_a_refusal_is_no_failure() -> None:
    assert not issubclass(Refusal, PermanentError | RetryableError)


@pytest.mark.parametrize("kind", [ConfigurationError, *ConfigurationError.__subclasses__()])
def test_a_configuration_error_lists_every_fault(kind: type[ConfigurationError]) -> None:
    error = kind(["one is wrong", "two is wrong"])
    assert isinstance(error, OnceError)
    assert error.faults == ("one is wrong", "two is wrong")
    assert str(error) == f"{kind.heading}:\n  - one is wrong\n  - two is wrong"
