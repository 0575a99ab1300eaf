"""AWS SDK: the configuration and the clients of every function.

SnapStart initializes a version once, and restores each of its execution environments from that
snapshot. So the snapshot holds what takes long to make, and nothing that must be unique. The
library makes no connection and no id during initialization, and its ids come from the operating
system, whose randomness AWS seeds anew after a restore. Python's own generator is copied with its
state: two functions would wait for equal delays after a conflict, and trace ids would repeat.
"""

import os
import random
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import boto3
from botocore.config import Config

from once.names import MAX_COMMIT_THREADS

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

# Timeouts are short: a call that hangs uses up the time of the whole batch, and the record of an
# unanswered commit is looked up. With its one retry, a call ends within the time margin. The SDK
# would build its own User-Agent twice for each request, which takes as long as signing it.
SDK = Config(
    user_agent=f"Boto3/{boto3.__version__} lib/once",
    connect_timeout=1,
    read_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    parameter_validation=False,
    tcp_keepalive=True,
    max_pool_connections=MAX_COMMIT_THREADS,
)


class S3Client(Protocol):
    """The operations of S3 that the library calls."""

    def get_object(self, *, Bucket: str, Key: str) -> Any:  # noqa: N803
        ...

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str) -> Any:  # noqa: N803
        ...


class _Later:
    """An object that is created on first use."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._made = cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)


def sqs_client(region: str | None) -> "SQSClient":
    """Return a client for dead letters and delays, which is created on first use."""
    return cast("SQSClient", _Later(partial(boto3.client, "sqs", region, config=SDK)))


def ssm_client(region: str | None) -> Any:
    """Return a client for parameters, which is created on first use."""
    return _Later(partial(boto3.client, "ssm", region, config=SDK))


def s3_client(region: str | None) -> S3Client:
    """Return a client for the claim-check bucket, which is created on first use."""
    return cast("S3Client", _Later(partial(boto3.client, "s3", region, config=SDK)))


def logger_of(service: str) -> "Logger":
    """Return Powertools' logger, which is loaded on first use.

    Most invocations write figures alone, and loading it takes a tenth of a cold start.
    """

    def make() -> "Logger":
        from aws_lambda_powertools import Logger

        return Logger(service=service)

    return cast("Logger", _Later(make))


def prepare_snapshot(*clients: Any) -> None:
    """Register the hooks of a function with SnapStart; without effect in any other function.

    Clients that are created on first use are created before the snapshot.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    # A part of Lambda's Python runtimes. Other functions do not load it.
    from snapshot_restore_py import register_after_restore, register_before_snapshot

    for client in clients:
        register_before_snapshot(getattr, client, "meta")  # the access creates the client
    register_after_restore(random.seed)
