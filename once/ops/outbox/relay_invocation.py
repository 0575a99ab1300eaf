"""The deployed relay, invoked with records of an operator's record_filter."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from once.outbox.stream_relay import Relayed

MAX_FUNCTION_SECONDS = 15 * 60
"""No function runs for longer: an answer that is not there by then does not come."""


class RelayFailed(Exception):
    """The relay has not published all of a batch; what it did publish may be published again."""


class RelayFunction:
    """Invokes the function, and waits for its answer.

    Args:
        client: a Lambda client that waits for `MAX_FUNCTION_SECONDS`.
        name: the function's name.
    """

    def __init__(self, client: "LambdaClient", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> "Relayed":
        """Have the events of these records published.

        Raises:
            RelayFailed: the function raised, or was ended.
            botocore.exceptions.BotoCoreError, ClientError: it cannot be invoked.
        """
        answer = self._client.invoke(
            FunctionName=self._name, Payload=json.dumps({"Records": [*records]})
        )
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            kind = payload.get("errorType", answer["FunctionError"])
            raise RelayFailed(f"{kind}: {payload.get('errorMessage', 'no message')}")
        return cast("Relayed", payload)
