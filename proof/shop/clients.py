"""Clients of the world, made once for a Python process: the real SDK's, with its real settings."""

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
from once.sdk import SDK

_ENVIRONMENT = {
    "PAYMENT_API": "https://payments.world",
    "SECRET_STRIPE_KEY": "stripe-key",
    "EMAIL_SENDER": "shop@example.com",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "AKIAWORLD",
    "AWS_SECRET_ACCESS_KEY": "none",
}
_SDK = SDK.merge(Config(signature_version=UNSIGNED, user_agent="world"))
"""As in production, without what takes long and nobody reads."""

_FULL = 500


class Clients:
    """The SDK's clients. Use `clients()`: to make them takes long."""

    def __init__(self) -> None:
        self._quotas: list[RetryQuota] = []
        os.environ |= _ENVIRONMENT
        with patch.object(standard, "quota", SimpleNamespace(RetryQuota=self._quota)):
            self.dynamodb: Any = boto3.client("dynamodb", config=_SDK)
            self.sqs: Any = boto3.client("sqs", config=_SDK)
            self.sns: Any = boto3.client("sns", config=_SDK)

    def _quota(self) -> RetryQuota:
        self._quotas.append(RetryQuota())
        return self._quotas[-1]

    def forget(self) -> None:
        """Be as new: what an earlier world has left behind changes nothing in the next."""
        for quota in self._quotas:
            quota.release(_FULL)
        provider._secrets().store.clear()  # noqa: SLF001


@cache
def clients() -> Clients:
    """Return the clients of this Python process."""
    return Clients()
