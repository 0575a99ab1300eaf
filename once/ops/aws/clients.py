"""AWS clients with credentials, region and endpoint of the environment."""

import os
from typing import Any

import boto3
from botocore.config import Config

THREADS = 8
"""Number of calls that the command line makes in parallel."""

_CONFIG = Config(
    max_pool_connections=THREADS,
    retries={"mode": "standard", "total_max_attempts": 5},
)


def client(service: str, *, read_timeout_seconds: int = 60) -> Any:
    """Return a client that all threads may share.

    Args:
        service: boto3's name of the service, such as `sqs`.
        read_timeout_seconds: how long to wait for a response.

    Raises:
        botocore.exceptions.BotoCoreError: the environment names no region, or an unknown profile.
    """
    config = _CONFIG.merge(Config(read_timeout=read_timeout_seconds))
    # The SDKs of other languages and the AWS CLI read AWS_REGION first; boto3 does not read it.
    region = os.environ.get("AWS_REGION") or None
    return boto3.client(service, config=config, region_name=region)
