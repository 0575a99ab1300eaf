"""Licences of the installed and locked packages, held against the policy."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from proof.report import ROOT
from proof.supply_chain.licence_policy import (
    EXCEPTIONS,
    FULL_TEXTS,
    FUNCTIONS,
    IN_FUNCTIONS,
    SPDX,
    TOOLS,
)
from proof.supply_chain.locked_packages import normalized

EMBEDDED_AWS = ROOT / ".venv-aws/bin/python"
_PARTS = re.compile(r" AND |; ")
_OWN = frozenset({"once-consumer", "once-local", "pytest-redelivery"})


def installed_licences(python: Path = Path(sys.executable)) -> dict[str, str]:
    """Return the licence of each distribution in an environment, by normalized name.

    Raises:
        OSError: pip-licenses could not read the environment.
    """
    tool = Path(sys.executable).with_name("pip-licenses")
    command = [str(tool), "--python", str(python), "--format", "json", "--with-system"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise OSError(f"pip-licenses could not read {python}: {done.stderr.strip()}")
    every = {normalized(entry["Name"]): entry["License"] for entry in json.loads(done.stdout)}
    return {name: licence for name, licence in every.items() if name not in _OWN}


def refused_tools(licences: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each package whose licence is neither accepted for tools nor an exception."""
    for name, licence in licences:
        if not accepted(licence, TOOLS) and not _excepted(name, licence, EXCEPTIONS):
            yield f"{name}: {_short(licence)}"


def refused_in_functions(names: Iterable[str], licences: Mapping[str, str]) -> Iterator[str]:
    """Yield each package of the functions whose licence is unknown or not accepted there."""
    for name in sorted(names):
        licence = licences.get(name, "")
        if not accepted(licence, FUNCTIONS) and not _excepted(name, licence, IN_FUNCTIONS):
            yield f"{name}, in a function's package: {_short(licence)}"


def accepted(licence: str, allowed: frozenset[str]) -> bool:
    """Return whether a licence, in the notation of SPDX or of classifiers, is among those allowed.

    One alternative of `OR` is enough. Of `AND`, and of classifiers, every part must be allowed.
    """
    plain = licence[1:-1] if licence[:1] == "(" and licence[-1:] == ")" else licence
    alternatives = plain.split(" OR ")
    return any(
        all(_identifier(part) in allowed for part in _PARTS.split(alternative))
        for alternative in alternatives
    )


def _excepted(name: str, licence: str, exceptions: Mapping[str, tuple[str, str]]) -> bool:
    return name in exceptions and exceptions[name][0] == _identifier(licence)


def _identifier(licence: str) -> str:
    for sentence, identifier in FULL_TEXTS.items():
        if sentence in licence:
            return identifier
    return SPDX.get(licence, licence)


def _short(licence: str) -> str:
    return licence.partition("\n")[0][:80] or "no licence named"
