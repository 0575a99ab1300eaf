"""Clients are made when a function starts, but for the one that few invocations need."""

from dataclasses import replace
from typing import Any, cast
from unittest.mock import Mock

import boto3
import pytest

from once.outbox.stream_relay import Relay
from once.runtime import Runtime
from once.settings import RelaySettings, Settings
from tests.in_memory import Start
from tests.once.support import amounts, failures, note

SETTINGS = Settings(
    consumer="notes",
    event_types=("noted",),
    queue_url="https://queue",
    dead_letter_url="https://dead",
    dedup_table="dedup",
    tables={},
    dedup_window_seconds=86400,
)
RELAY_SETTINGS = RelaySettings(
    service="once",
    topic_arn="arn:aws:sns:us-east-1:1:topic",
    dead_letter_url="https://dead",
    publishes={},
)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clients that are made, by service."""
    names: list[str] = []

    def client(service: str, *_: object, **__: object) -> Mock:
        names.append(service)
        return Mock()

    monkeypatch.setattr(boto3, "client", client)
    return names


def test_the_client_for_queues_is_made_once_and_when_it_is_first_used(clients: list[str]) -> None:
    runtime = Runtime.of(SETTINGS)
    assert clients == ["dynamodb"]
    assert runtime.sqs.send_message == runtime.sqs.send_message
    assert clients == ["dynamodb", "sqs"]


def test_the_relays_too(clients: list[str]) -> None:
    relay = Relay.of(RELAY_SETTINGS)
    assert clients == ["sns"]
    assert relay.sqs.send_message == relay.sqs.send_message
    assert clients == ["sns", "sqs"]


def test_a_batch_without_failures_needs_none(start: Start) -> None:
    aws = start()
    aws.runtime = replace(aws.runtime, sqs=cast("Any", None))
    assert failures(aws.deliver(note(), note())) == []
    assert amounts(aws) == {"a": 2}
