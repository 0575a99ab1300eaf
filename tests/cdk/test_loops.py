"""No event comes back to the queue of the consumer that published it."""

from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk import assemble, synthesize
from once.cdk.errors import SynthError
from once.cdk.props import ConsumerProps
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import Cloud, environment, new_app

TAKING = [line for line in CONSUMERS if line.events]


@pytest.mark.parametrize("line", TAKING, ids=lambda line: str(line.name))
def test_l1_a_line_that_publishes_into_its_own_queue_is_not_synthesized(
    tmp_path: Path, line: ConsumerProps
) -> None:
    own = line.events[0]
    looping = replace(line, publishes=(*line.publishes, own))
    app = new_app(tmp_path / "out")
    lines = [looping if each is line else each for each in CONSUMERS]
    assemble(app, replace(REGISTRY, consumers=lines))
    with pytest.raises(SynthError, match=f"consumer '{line.name}': it publishes '{own}' into"):
        synthesize(app)


def test_l1_no_queue_selects_what_its_consumer_may_publish(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    selected = [
        event
        for subscription in cloud.every("AWS::SNS::Subscription").values()
        if subscription["Endpoint"] == cloud.arn(consumer, "Queue")
        for event in subscription["FilterPolicy"]["type"]
    ]
    assert selected
    published = environment(cloud, consumer)["ONCE_PUBLISHES"]
    assert [event for event in selected if f'"{event}"' in published] == []
