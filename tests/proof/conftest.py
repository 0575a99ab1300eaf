"""Fixtures of the proofs' tests."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import boto3
import pytest

from functions.notifications import mail
from functions.payments import provider
from proof.world.clients import clients


@pytest.fixture(scope="module", autouse=True)
def _restore_clients_and_environment() -> Iterator[None]:
    with patch.dict(os.environ), patch.object(boto3, "DEFAULT_SESSION", None):
        yield
    for cached in (clients, provider._secrets, mail._client):
        cached.cache_clear()
