"""Keeps events that no consumer subscribes to: `once.outbox.unrouted` on the sweep queue."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from once.outbox.unrouted import Sweep
from once.settings import SweepSettings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


@cache
def _sweep() -> Sweep:
    return Sweep.of(SweepSettings.from_env())


def lambda_handler(event: dict[str, Any], context: object) -> "PartialItemFailureResponse":
    del context
    return _sweep().handle(event)


if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    _sweep()  # missing settings fail the start of the function, and not its first batch
