"""Bounds that the constructs choose and the library relies on.

Apart from the other tests, which do not load the CDK.
"""

import pytest

from once.cdk.checks.consumer_props import START_SECONDS
from once.cdk.checks.deployment_options import message_life_days
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import DAY_SECONDS
from once.effects.workflows import ONE_ATTEMPT
from once.names import Limits
from tests.in_memory import Start
from tests.once.support import amounts, consumer_of, failures, note

NOW = 1_800_000_000
DEAD_LETTER = Limits.DEAD_LETTER_RETENTION_SECONDS
DEPLOYED = DeploymentConfig()


def longest_life(redrives: int) -> int:
    """Seconds for which a message exists, if it stays in each queue for the whole retention."""
    in_queues = (1 + redrives) * Limits.QUEUE_RETENTION_SECONDS
    return in_queues + redrives * DEAD_LETTER


@pytest.mark.parametrize(
    ("window", "life"),
    [
        *((message_life_days(n) * DAY_SECONDS, longest_life(n)) for n in (0, 2)),
        (DEPLOYED.dedup_window_seconds, (1 + DEPLOYED.redrives) * DEAD_LETTER),
    ],
)
def test_d2_the_window_contains_the_latest_duplicate(start: Start, window: int, life: int) -> None:
    aws, event = start(consumer_of(), dedup_window_seconds=window), note()
    for aws.time in (NOW, NOW + life):
        assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []


def test_two_requests_end_within_the_least_timeout_of_an_effect() -> None:
    longest = ONE_ATTEMPT.connect_timeout + ONE_ATTEMPT.read_timeout  # type: ignore[attr-defined]
    assert 2 * longest <= START_SECONDS
    assert ONE_ATTEMPT.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]
