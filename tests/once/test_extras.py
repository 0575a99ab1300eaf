"""An import without its extra names the extra and how to install it; others keep their error."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from once.errors import EXTRAS
from stacks.folders import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]

SIGN = "from once.webhooks.signature import _standard_hmac; _standard_hmac('whsec_eA==', None)"
VERIFY = "from once.webhooks.signature import _is_signed_by_owner as f; f('whpk_', None)"
CONSOLE = "import sys; sys.argv = ['once', 'console']; import once.ops.__main__ as o; o.main()"
PIP = "run pip install 'once-consumer[{extra}]'"
LOCK = "requirements.txt of the function's folder"
CASES = [
    ("testing", "moto", "import once.testing", PIP),
    ("cdk", "aws_cdk", "from once.cdk import IdempotentConsumer", PIP),
    ("ops", "typer", "import once.ops.__main__", PIP),
    ("ops", "starlette", CONSOLE, PIP),
    ("otel", "opentelemetry", "import once.runtime.otlp", "lock file of the functions"),
    ("webhooks", "standardwebhooks", SIGN, LOCK),
    ("webhooks", "nacl", VERIFY, LOCK),
]


def error_without(module: str, code: str) -> str:
    """Run code in a process that cannot import a module, and return the last line of its error."""
    hidden = f"import sys; sys.modules[{module!r}] = None; {code}"
    done = subprocess.run(
        [sys.executable, "-c", hidden], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("extra", "module", "code", "remedy"), CASES)
def test_a_missing_module_of_an_extra_names_the_extra_and_the_remedy(
    extra: str, module: str, code: str, remedy: str
) -> None:
    error = error_without(module, code)
    assert re.search(rf"No module named '{module}[\w.]*', which the extra `{extra}` of", error), (
        error
    )
    assert remedy.format(extra=extra) in error


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("werkzeug", "import once.testing"),  # moto needs it
        ("botocore", "import once.ops.__main__"),
    ],
)
def test_a_missing_module_that_is_of_no_extra_keeps_its_own_error(module: str, code: str) -> None:
    error = error_without(module, code)
    assert error.startswith("ModuleNotFoundError: ")
    assert module in error
    assert "extra" not in error


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
