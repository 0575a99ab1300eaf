"""Secrets of the endpoints: read from Secrets Manager, and kept in memory for a while."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from once.error_text import summary_of
from once.errors import RetryableError

KEPT_SECONDS = 300
"""Time for which secrets stay in memory: a secret that was withdrawn is refused after that."""
REFRESH_SECONDS = 5
"""Shortest time between two readings of one secret, failed ones included: neither forged requests
nor an outage cause more of them."""
OUTAGE_SECONDS = 60 * 60
"""Time after `KEPT_SECONDS` for which secrets in memory count while they cannot be read again."""

_CURRENT, _PREVIOUS = "AWSCURRENT", "AWSPREVIOUS"


class SecretsUnavailable(RetryableError):
    """No secret can be used that decides about a request. The text has no part of a secret.

    Remedy: store the endpoint's secret in Secrets Manager, and grant the ingress its reading;
    the provider sends again.
    """

    @property
    def summary(self) -> str:
        """The class and the text, for logs."""
        return f"{type(self).__name__}: {self}"


class SecretsClient(Protocol):
    """The operation of Secrets Manager that the ingress calls."""

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Any:  # noqa: N803
        """Return one version of a secret."""


class Secrets(NamedTuple):
    """The secrets of an endpoint, by the version that they are in."""

    current: tuple[str, ...]
    previous: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Secrets(<{len(self.current)}>, <{len(self.previous)}>)"


@dataclass(slots=True)
class _Kept:
    """The last reading that succeeded, and the last one at all; times as the clock's.

    `fault` says why the last one failed; it is empty if it succeeded.
    """

    values: Secrets | None
    read_at: float
    tried_at: float
    fault: str


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

        If they cannot be read again, those in memory count for another `OUTAGE_SECONDS`. They prove
        that a request is genuine, but not that it is forged: the secret may have been rotated.

        Args:
            endpoint: the endpoint's name.
            refreshed: whether those in memory did not verify a request, and may be outdated.

        Raises:
            SecretsUnavailable: they cannot be read, and those in memory are too old, do not verify
                the request, or do not exist.
        """
        now = self._clock()
        kept = self._kept.get(endpoint) or _Kept(None, now, now - REFRESH_SECONDS, "not read yet")
        hurried = refreshed or kept.fault
        if now - kept.tried_at >= (REFRESH_SECONDS if hurried else KEPT_SECONDS):
            kept = self._kept[endpoint] = self._read(endpoint, kept)
        is_recent = now - kept.read_at < KEPT_SECONDS + OUTAGE_SECONDS
        if kept.values is None or (kept.fault and (refreshed or not is_recent)):
            raise SecretsUnavailable(kept.fault)
        return kept.values

    def _read(self, endpoint: str, before: _Kept) -> _Kept:
        now = self._clock()
        try:
            return _Kept(self._versions(endpoint), now, now, "")
        except SecretsUnavailable as error:
            return _Kept(before.values, before.read_at, now, str(error))

    def _versions(self, endpoint: str) -> Secrets:
        arn = self._arns.get(endpoint)
        if arn is None:
            raise SecretsUnavailable(f"the settings have no secret for endpoint {endpoint!r}")
        current = _lines(self._version(arn, _CURRENT))
        if not current:
            raise SecretsUnavailable(
                f"the secret of endpoint {endpoint!r} has no signing secret: put it as plain text, "
                "one secret a line, and not as JSON or binary"
            )
        return Secrets(current, _lines(self._version(arn, _PREVIOUS)))

    def _version(self, arn: str, stage: str) -> str:
        try:
            answer = self._client.get_secret_value(SecretId=arn, VersionStage=stage)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return ""  # never written, or never rotated
            raise SecretsUnavailable(summary_of(error)) from None
        except BotoCoreError as error:
            raise SecretsUnavailable(summary_of(error)) from None
        return str(answer.get("SecretString", ""))


def _lines(text: str) -> tuple[str, ...]:
    """Return the secrets in a version; none of JSON, which the console suggests."""
    lines = filter(None, map(str.strip, text.splitlines()))
    return () if text.lstrip().startswith("{") else tuple(dict.fromkeys(lines))
