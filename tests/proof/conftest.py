"""What a world needs of its process is gone when its tests are over."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import boto3
import pytest

from functions.notifications import mail
from functions.payments import provider
from proof.shop.clients import clients


@pytest.fixture(scope="module", autouse=True)
def _leave_nothing_behind() -> Iterator[None]:
    with patch.dict(os.environ), patch.object(boto3, "DEFAULT_SESSION", None):
        yield
    for made in (clients, provider._secrets, mail._client):
        made.cache_clear()
