"""Secrets of the endpoints: read from Secrets Manager, and kept in memory for a while."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from once.error_text import summary_of

KEPT_SECONDS = 300
"""Time for which secrets stay in memory: a secret that was withdrawn is refused after that."""
REFRESH_SECONDS = 5
"""Shortest time between two readings of one secret: forged requests cause no more of them."""

_STAGES = ("AWSCURRENT", "AWSPREVIOUS")


class SecretsUnavailable(Exception):
    """Secrets Manager refused a request or did not answer, and no secrets are in memory."""


class SecretsClient(Protocol):
    """The operation of Secrets Manager that the ingress calls."""

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Any:  # noqa: N803
        """Return one version of a secret."""


class Secrets(NamedTuple):
    """The secrets of an endpoint, by the version that they are in."""

    current: tuple[str, ...]
    previous: tuple[str, ...] = ()


@dataclass(slots=True)
class _Kept:
    values: Secrets
    at: float


class SecretCache:
    """Secrets by endpoint: those of the current version and of the previous one.

    Args:
        client: a client of Secrets Manager.
        arns: the ARN of each endpoint's secret, by the endpoint's name.
        clock: the time, in seconds since the epoch.
    """

    def __init__(
        self, client: SecretsClient, arns: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._arns = arns
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def of(self, endpoint: str, *, refreshed: bool = False) -> Secrets:
        """Return an endpoint's secrets.

        Args:
            endpoint: the endpoint's name.
            refreshed: whether those in memory did not verify a request, and may be outdated.

        Raises:
            SecretsUnavailable: they cannot be read, and none are in memory.
        """
        kept = self._kept.get(endpoint)
        age = REFRESH_SECONDS if refreshed else KEPT_SECONDS
        if kept is not None and self._clock() - kept.at < age:
            return kept.values
        values = self._read(self._arns[endpoint])
        self._kept[endpoint] = _Kept(values, self._clock())
        return values

    def _read(self, arn: str) -> Secrets:
        return Secrets(*(_lines(self._version(arn, stage)) for stage in _STAGES))

    def _version(self, arn: str, stage: str) -> str:
        try:
            answer = self._client.get_secret_value(SecretId=arn, VersionStage=stage)
        except ClientError as error:
            missing = error.response["Error"]["Code"] == "ResourceNotFoundException"
            if missing and stage != _STAGES[0]:  # a secret that was never rotated
                return ""
            raise SecretsUnavailable(summary_of(error)) from None
        except BotoCoreError as error:
            raise SecretsUnavailable(summary_of(error)) from None
        return str(answer.get("SecretString", ""))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.splitlines())))
