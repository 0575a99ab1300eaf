"""Fixtures of the `webhooks` commands."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.ops.cloud import Cloud
from tests.ops.webhooks.ingress import Receiver, Webhooks, receiver


@pytest.fixture(autouse=True)
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    # A search asks for each of an endpoint's parts of each day, and in memory a query takes 4 ms.
    monkeypatch.setattr("once.webhooks.captured_webhook.SHARDS", 2)
    for module in ("webhook_commands", "replay"):
        monkeypatch.setattr(f"once.ops.webhooks.{module}.SEARCH_PERIOD", timedelta(days=2))


@pytest.fixture
def webhooks(cloud: Cloud) -> Webhooks:
    """A deployment with a webhook ingress."""
    return Webhooks(cloud)


@pytest.fixture
def server() -> Iterator[Receiver]:
    """A server on this machine."""
    with receiver() as running:
        yield running


@pytest.fixture
def gateway(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """A server in place of the embedded AWS, for the URLs of functions alone."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    return server
