"""The relay: `once.outbox.relay` on the dedup table's stream."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from once.outbox.relay import Relay, Relayed
from once.settings import RelaySettings

if TYPE_CHECKING:
    from once.runtime.deadline import Context


@cache
def _relay() -> Relay:
    return Relay.of(RelaySettings.from_env())


def lambda_handler(event: dict[str, Any], context: "Context") -> Relayed:
    return _relay().handle(event, context)


if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    _relay()  # missing settings fail the start of the function, and not its first batch
