"""Prefix of every name of one run, and the test whether a name belongs to it."""

import re
import secrets

from once.ops.errors import OpsError

STEM = "once-verify-"
_PREFIX = re.compile(rf"{STEM}[0-9a-f]{{8}}")
LOG_FOLDERS = ("/aws/lambda/", "/aws/apigateway/", "/aws/cloudformation/")
"""The first parts of log groups' names, which AWS or the constructs add."""


def new_prefix() -> str:
    """Return a prefix that no earlier run had."""
    return f"{STEM}{secrets.token_hex(4)}"


def checked_prefix(prefix: str) -> str:
    """Return the prefix.

    Raises:
        OpsError: it is not one of a run. Clean-up of `once` would delete a production service.
    """
    if not _PREFIX.fullmatch(prefix):
        raise OpsError(
            f"{prefix!r} is no prefix of a run: give {STEM} and eight digits of 0-9a-f, as the run "
            "printed them and reports/verify.json has them"
        )
    return prefix


def owns(prefix: str, name: str) -> bool:
    """Tell whether a physical name, the last part of an ARN or of a URL, is one of the prefix."""
    for folder in LOG_FOLDERS:
        name = name.removeprefix(folder)
    return name.startswith(f"{prefix}-")
