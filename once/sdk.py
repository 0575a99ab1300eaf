"""The AWS SDK as every function uses it."""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.config import Config

from once.settings import MOST_COMMIT_THREADS

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# Short, because a call that hangs spends the time of the whole batch, and an unanswered commit is
# looked up rather than waited for: with its one retry, a call ends within the time margin.
SDK = Config(
    connect_timeout=1,
    read_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    parameter_validation=False,
    tcp_keepalive=True,
    max_pool_connections=MOST_COMMIT_THREADS,
)


class _Later:
    """A client that is made when it is first used."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._client = cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client(), name)


def sqs_client(region: str | None) -> "SQSClient":
    """Return a client for dead letters and delays, which is made when the first of them is due."""
    return cast("SQSClient", _Later(partial(boto3.client, "sqs", region, config=SDK)))
