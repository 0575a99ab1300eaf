"""Runtime: the clients and settings of a function."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import boto3
from aws_lambda_powertools import Logger

from once.metrics_log import MetricsLog
from once.sdk import SDK, S3Client, s3_client, sqs_client
from once.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything outside of the library that a consumer works with. A test may replace each."""

    settings: Settings
    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    logger: Logger
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    metrics: MetricsLog = field(default_factory=MetricsLog)
    s3: S3Client | None = None

    @classmethod
    def of(cls, settings: Settings, *, region: str | None = None) -> "Runtime":
        """Return the runtime of a deployed function, which finds its region in its environment."""
        return cls(
            settings=settings,
            dynamodb=boto3.client("dynamodb", region, config=SDK),
            sqs=sqs_client(region),
            logger=Logger(service=settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )
