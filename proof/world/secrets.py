"""Secrets Manager: the versions of each secret, of which the last two can be read."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from proof.world.errors import ServiceError

_VALID = 2


class Secrets:
    """All secrets.

    Args:
        clock: returns seconds since the epoch.
        default: the value of every secret that was never put.
    """

    def __init__(self, clock: Callable[[], float], default: str) -> None:
        self._clock = clock
        self._default = default
        self._versions: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def put(self, secret: str, value: str) -> None:
        """Make a value the current one, and the current one the previous one."""
        self._versions[secret][value] = self._clock()

    def valid_since(self, secret: str, value: str) -> float | None:
        """Return when a value was put; None if it is neither current nor previous."""
        valid = [*self._versions[secret]][-_VALID:]
        return self._versions[secret][value] if value in valid else None

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Return a version of a secret.

        Raises:
            ServiceError: there is no such version.
        """
        if request["SecretId"] not in self._versions:
            return {"SecretString": self._default}
        versions = [*self._versions[request["SecretId"]]]
        age = 2 if request.get("VersionStage") == "AWSPREVIOUS" else 1
        if len(versions) < age:
            raise ServiceError("ResourceNotFoundException")
        return {"SecretString": versions[-age]}
