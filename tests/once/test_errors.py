"""The error tree, the texts of its errors, and the errors of missing extras."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from once import errors
from once.commit import former_dedup
from once.errors import (
    EXTRAS,
    ConfigurationError,
    OnceError,
    PermanentError,
    Unexpected,
    summary_of,
)
from once.events import claim_check
from once.names import Reason
from once.outbox import unrouted
from once.webhooks.signature import _is_signed_by_owner, _standard_hmac
from stacks.folders import ROOT

MODULES = {m.__name__ for m in (errors, claim_check, unrouted, former_dedup)}


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


@pytest.mark.parametrize("kind", [ConfigurationError, *ConfigurationError.__subclasses__()])
def test_a_configuration_error_lists_every_fault(kind: type[ConfigurationError]) -> None:
    error = kind(["one is wrong", "two is wrong"])
    assert isinstance(error, OnceError)
    assert error.faults == ("one is wrong", "two is wrong")
    assert str(error) == f"{kind.heading}:\n  - one is wrong\n  - two is wrong"


# An import without its extra names the extra and how to install it; others keep their error.


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]

PIP = "run pip install 'once-consumer[{extra}]'"
CASES = [
    ("testing", "moto", "from once.testing import FakeAws", PIP),
    ("cdk", "aws_cdk", "from once.cdk import IdempotentConsumer", PIP),
    ("ops", "typer", "import once.ops.__main__", PIP),
    ("otel", "opentelemetry", "import once.runtime.otlp", "lock file of the functions"),
    ("", "werkzeug", "from once.testing import FakeAws", ""),  # moto needs it
]
HIDING = """
import sys
for module, code in {cases}:
    sys.modules[module] = None
    try:
        exec(code)
    except (ImportError, SystemExit) as error:
        print(f"{{type(error).__name__}}: {{error}}")
    del sys.modules[module]
"""


def test_a_missing_module_of_an_extra_names_the_extra_and_the_remedy() -> None:
    """One that is of no extra keeps its own error."""
    code = HIDING.format(cases=[case[1:3] for case in CASES])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for (extra, module, _, remedy), error in zip(CASES, done.stdout.splitlines(), strict=True):
        if extra:
            text = rf"No module named '{module}[\w.]*', which the extra `{extra}` of"
            assert re.search(text, error), error
            assert remedy.format(extra=extra) in error
        else:
            assert error.startswith("ModuleNotFoundError: No module named 'werkzeug"), error
            assert "extra" not in error


@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("standardwebhooks", lambda: _standard_hmac("whsec_eA==", Mock())),
        ("nacl", lambda: _is_signed_by_owner("whpk_", Mock())),
    ],
)
def test_a_missing_module_of_webhooks_is_named_when_a_secret_needs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, use: Callable[[], object]
) -> None:
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    text = "which the extra `webhooks` of .*requirements.txt of the function's folder"
    with pytest.raises(ModuleNotFoundError, match=text):
        use()


def test_every_extra_and_every_module_of_its_requirements_is_known() -> None:
    declared = {
        name: {re.split(r"[<>=~ ]", each)[0] for each in needed}
        for name, needed in DECLARED.items()
    }
    assert EXTRAS.keys() == declared.keys()
    origins = packages_distributions()
    for name, modules in EXTRAS.items():
        of = {module: {origin.lower() for origin in origins[module]} for module in modules}
        assert [module for module in modules if not of[module] & declared[name]] == []
        assert declared[name] - {"pip"} <= set().union(*of.values())  # pip runs as a program
