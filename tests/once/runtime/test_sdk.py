"""The SDK's configuration: what a function's clients send."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from once.runtime.sdk import SDK


class Refused:
    """Answers a request before it is sent, and keeps its headers."""

    status_code = 400
    content = b"{}"
    raw = None

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def __call__(self, request: Any, **_: Any) -> "Refused":
        self.sent = request.headers
        return self


def test_a_request_has_the_user_agent_of_the_configuration() -> None:
    session = boto3.Session("test", "test", region_name="us-east-1")
    client = session.client("dynamodb", config=SDK)
    client.meta.events.register("before-send.dynamodb", answer := Refused())
    with pytest.raises(ClientError):
        client.list_tables()
    agent = answer.sent["User-Agent"]
    assert (agent.decode() if isinstance(agent, bytes) else agent).startswith(
        f"Boto3/{boto3.__version__} lib/once"
    )
