"""The operator's tools read back the outputs that the stacks write."""

import json

import pytest

from once.events.cloud_event import read_event
from once.names import SCHEMA_VERSION, Limits
from once.ops.aws.deployment import Deployment
from stacks.consumers import CONSUMERS
from tests.golden.versions import golden
from tests.stacks.cloud import Cloud, flat


def outputs_of(cloud: Cloud) -> dict[str, str]:
    """The outputs of both stacks as CloudFormation reports them, functions by their names."""
    names = {
        f"<{key}>": f["FunctionName"] for key, f in cloud.every("AWS::Lambda::Function").items()
    }
    values = {
        key: flat(output["Value"])
        for template in (cloud.state, cloud.service)
        for key, output in template["Outputs"].items()
    }
    return {key: names.get(value, value) for key, value in values.items()}


def test_the_command_line_finds_every_resource_in_the_outputs(cloud: Cloud) -> None:
    found = Deployment.of("once", outputs_of(cloud))
    assert found.ingress_topic_arn == cloud.text("Ingress")
    assert found.events_topic_arn == cloud.text("Events")
    assert found.relay_function_name == "once-outbox_relay"
    assert found.relay_dead_letter_url == cloud.text("outbox_relay", "DeadLetters")
    assert found.unrouted_queue_url == cloud.text("unrouted", "Queue")
    assert found.sweep_queue_url == cloud.text("unrouted", "Sweep")
    assert found.operator_log == cloud.text("once-state", "operator-log")
    assert found.dedup_table == cloud.text("once-state", "dedup-records")
    tables = {table.name for consumer in CONSUMERS for table in consumer.tables}
    assert found.tables == {name: cloud.text("once-state", name) for name in tables}
    assert found.consumers.keys() == {consumer.name for consumer in CONSUMERS}
    for props in CONSUMERS:
        consumer = found.consumer(props.name)
        assert consumer.identity == props.identity
        assert consumer.queue_url == cloud.text(props.name, "Queue")
        assert consumer.dead_letter_url == cloud.text(props.name, "DeadLetters")
        assert (consumer.external, consumer.events) == (props.external, props.events)
        isolation = cloud.text(props.name, "Isolation") if props.batch_size > 1 else None
        assert consumer.isolation_queue_url == isolation


@pytest.mark.parametrize("name", golden(SCHEMA_VERSION, "consumers"))
def test_keys_by_the_outputs_are_those_that_the_consumers_compute(cloud: Cloud, name: str) -> None:
    case = golden(SCHEMA_VERSION, "consumers")[name]
    consumer = Deployment.of("once", outputs_of(cloud)).consumer(case["consumer"])
    event = read_event(json.dumps(case["event"]), max_bytes=Limits.MESSAGE_BYTES)
    assert event.type in consumer.event_types
    assert (consumer.key(event), consumer.fingerprint(event)) == (case["key"], case["fingerprint"])
