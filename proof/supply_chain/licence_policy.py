"""Licences that the project accepts, and where."""

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

_LAB = "a client of the lab's PostgreSQL; in no distribution of this project"
_NPM = "a dependency of secretlint, which runs in the audit only"
_UNCHANGED = "used unchanged, which asks for nothing; in no function's package"

IN_FUNCTIONS = {
    "certifi": ("MPL-2.0", "a list of authorities for stripe; its files stay under their licence"),
}
"""Packages of the functions with another licence: exactly that licence, and why it is accepted."""

EXCEPTIONS = IN_FUNCTIONS | {
    "fqdn": ("MPL-2.0", _UNCHANGED),
    "hypothesis": ("MPL-2.0", _UNCHANGED),
    "orjson": ("MPL-2.0 AND (Apache-2.0 OR MIT)", _UNCHANGED),
    "pathspec": ("MPL-2.0", _UNCHANGED),
    "psycopg": ("LGPL-3.0-only", _LAB),
    "psycopg-binary": ("LGPL-3.0-only", _LAB),
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
