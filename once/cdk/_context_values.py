"""Values of the CDK context: how each is read, and the Python versions that Lambda has."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

from aws_cdk import aws_lambda as lambda_

from once.cdk.scaling import WarmThroughput

OLDEST_PYTHON = 11
"""The oldest supported minor version: the library uses syntax and typing of Python 3.11."""

KNOWN_PYTHONS = tuple(
    sorted(
        int(found[1])
        for name in dir(lambda_.Runtime)
        if (found := re.fullmatch(r"PYTHON_3_(\d+)", name)) and int(found[1]) >= OLDEST_PYTHON
    )
)
"""Minor versions that both this library and the installed CDK know as a Lambda runtime."""


def this_python() -> str:
    """Return the minor version of this Python, or the newest one that Lambda has."""
    return f"3.{min(sys.version_info.minor, max(KNOWN_PYTHONS, default=OLDEST_PYTHON))}"


def _service(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", value):
        raise ValueError("use at most 20 lower-case letters, digits and hyphens, a letter first")
    return value


def _flag(value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ValueError("say true or false")
    return value.lower() == "true"


def _count(value: str) -> int:
    if not value.isdecimal():
        raise ValueError("give a whole number, 0 or more")
    return int(value)


def _level(value: str) -> str:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if value not in levels:
        raise ValueError(f"use one of {', '.join(levels)}")
    return value


def _address(value: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", value):
        raise ValueError("give an e-mail address, such as orders@example.com")
    return value


def text_of(value: Any) -> str:
    """Return a value as text, as `-c` would give it: a context file may also hold numbers."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def _python(value: str) -> str:
    known = [f"3.{minor}" for minor in KNOWN_PYTHONS]
    if value not in known:
        raise ValueError(f"use one of {', '.join(known)}")
    return value


def _publishers(value: str) -> tuple[str, ...]:
    given = tuple(filter(None, re.split(r"[,\s]+", value)))
    if not all(re.fullmatch(r"s3|events|\d{12}", each) for each in given):
        raise ValueError("give ids of accounts, s3 and events, with commas between them")
    return tuple(dict.fromkeys(given))


READ: dict[str, Callable[[str], Any]] = {
    "service": _service,
    "local": _flag,
    "dedup_window_days": _count,
    "redrives": _count,
    "provider_retry_days": _count,
    "log_level": _level,
    "group_commit": _flag,
    "gradual_rollout": _flag,
    "email_sender": _address,
    "create_email_identity": _flag,
    "python_runtime": _python,
    "dedup_warm_throughput": WarmThroughput.read,
    "ingress_publishers": _publishers,
    "webhook_concurrency": _count,
    "fifo_topic_letters": _flag,
    "keep_data": _flag,
}
"""Reader of each value of the context; raises ValueError with the remedy."""
