"""Relay invocation: calls the deployed relay with dedup records in the form of its stream."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from once.schema import LIVE_ALIAS

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from once.outbox.stream_relay import Relayed

MAX_FUNCTION_SECONDS = 15 * 60
"""Largest timeout of a Lambda function."""


class RelayFailed(Exception):
    """The relay has not published all events of a batch; some may have been published."""


class RelayFunction:
    """Invokes the function, and waits for its response.

    Args:
        client: a Lambda client that waits for `MAX_FUNCTION_SECONDS`.
        name: the function's name.
    """

    def __init__(self, client: "LambdaClient", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> "Relayed":
        """Let the relay publish the events of records.

        Raises:
            RelayFailed: the function raised an exception, or was terminated.
            botocore.exceptions.BotoCoreError, ClientError: it cannot be invoked.
        """
        answer = self._client.invoke(
            FunctionName=self._name,
            Qualifier=LIVE_ALIAS,  # the version that the stream invokes
            Payload=json.dumps({"Records": [*records]}),
        )
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            kind = payload.get("errorType", answer["FunctionError"])
            raise RelayFailed(f"{kind}: {payload.get('errorMessage', 'no message')}")
        return cast("Relayed", payload)
