"""SDK clients with the service's own settings, made once for a Python process."""

import os
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.retries import standard
from botocore.retries.quota import RetryQuota

from functions.payments import provider
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK

NO_METRICS = MetricsLog(service="none", write=lambda _: None)
"""No metrics: they are tested elsewhere, and would take most of the time of a run."""

_ENVIRONMENT = {
    "PAYMENT_API": "https://payments.world",
    "SECRET_STRIPE_KEY": "stripe-key",
    "EMAIL_SENDER": "shop@example.com",
    "WORKFLOW_FULFILMENT": "arn:aws:states:us-east-1:123456789012:stateMachine:fulfilment",
    "WORKFLOW_PACKING": "arn:aws:lambda:us-east-1:123456789012:function:packing:live",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "AKIAWORLD",
    "AWS_SECRET_ACCESS_KEY": "none",
}
# Signatures and the user agent take time, and are not checked.
_SDK = SDK.merge(Config(signature_version=UNSIGNED, user_agent="world"))
_MAX_QUOTA = 500


class Clients:
    """The SDK's clients. Use `clients()`: to make them takes long."""

    def __init__(self) -> None:
        self._quotas: list[RetryQuota] = []
        os.environ |= _ENVIRONMENT
        with patch.object(standard, "quota", SimpleNamespace(RetryQuota=self._new_quota)):
            self.dynamodb: Any = boto3.client("dynamodb", config=_SDK)
            self.sqs: Any = boto3.client("sqs", config=_SDK)
            self.sns: Any = boto3.client("sns", config=_SDK)
            self.scheduler: Any = boto3.client("scheduler", config=_SDK)
            self.secretsmanager: Any = boto3.client("secretsmanager", config=_SDK)
            self.s3: Any = boto3.client("s3", config=_SDK)

    def _new_quota(self) -> RetryQuota:
        self._quotas.append(RetryQuota())
        return self._quotas[-1]

    def reset(self) -> None:
        """Reset retry quotas and the cached secret, so that runs are independent."""
        for quota in self._quotas:
            quota.release(_MAX_QUOTA)
        provider._KEPT_KEY.clear()  # noqa: SLF001


@cache
def clients() -> Clients:
    """Return the clients of this Python process."""
    return Clients()
