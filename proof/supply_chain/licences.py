"""Licences that the project accepts, and those of the installed and locked packages."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from proof.report import ROOT

TOOLS = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BlueOak-1.0.0",
        "CC0-1.0",
        "CNRI-Python",
    }
    | {"ISC", "MIT", "MIT-0", "PSF-2.0", "Python-2.0"}
)
"""Permissive licences. They are accepted for what builds, tests and operates the service."""

FUNCTIONS = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MIT-0", "PSF-2.0"})
"""Licences accepted in a function's package, which is redistributed."""

_LAB = "a client of the PostgreSQL of lab and tests; in no distribution of this project"
_NPM = "a dependency of secretlint, which runs in the audit only"
_UNCHANGED = "used unchanged, which asks for nothing; in no function's package"

IN_FUNCTIONS = {
    "certifi": ("MPL-2.0", "a list of authorities for stripe; its files stay under their licence"),
}
"""Packages of the functions with another licence: exactly that licence, and why it is accepted."""

EXCEPTIONS = IN_FUNCTIONS | {
    "axe-core": ("MPL-2.0", _UNCHANGED),
    "fqdn": ("MPL-2.0", _UNCHANGED),
    "hypothesis": ("MPL-2.0", _UNCHANGED),
    "orjson": ("MPL-2.0 AND (Apache-2.0 OR MIT)", _UNCHANGED),
    "pathspec": ("MPL-2.0", _UNCHANGED),
    "psycopg": ("LGPL-3.0-only", _LAB),
    "psycopg-binary": ("LGPL-3.0-only", _LAB),
    "psycopg2-binary": ("GNU Library or Lesser General Public License (LGPL)", _LAB),
    "docutils": (
        "BSD License; GNU General Public License (GPL); Public Domain",
        "its library is public domain; one Emacs mode, which nothing uses, is under the GPL",
    ),
    "@azu/style-format": ("WTFPL", _NPM),
    "binaryextensions": ("Artistic-2.0", _NPM),
    "editions": ("Artistic-2.0", _NPM),
    "istextorbinary": ("Artistic-2.0", _NPM),
    "textextensions": ("Artistic-2.0", _NPM),
    "version-range": ("Artistic-2.0", _NPM),
    "spdx-exceptions": ("CC-BY-3.0", _NPM),
}
"""Tools with another licence: exactly that licence, and the reason why it is accepted."""

SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Names in older metadata, and the identifiers that replaced them."""

FULL_TEXTS = {"Permission is hereby granted, free of charge": "MIT"}
"""A sentence of each licence that some package has in full where its name belongs."""


EMBEDDED_AWS = ROOT / ".venv-aws/bin/python"
_SEPARATORS = re.compile(r"[-_.]+")
_PARTS = re.compile(r" AND |; ")
_OWN = frozenset({"once-consumer", "once-local", "pytest-redelivery"})


def normalized(name: str) -> str:
    """Return a distribution's name as PyPI compares it."""
    return _SEPARATORS.sub("-", name).lower()


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
