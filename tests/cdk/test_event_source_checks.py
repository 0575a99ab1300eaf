"""Checks of a consumer's source: each fault states the mistake and its remedy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from once.cdk import ConsumerProps, DedupTable, IdempotentConsumer, Source, SynthError
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.deployment_options import DeploymentConfig
from tests.cdk.source_lines import LINES, TOPIC, line

BRIDGE = Source.event_bridge("aws.ec2")
PLACED = {"external": ("order.placed",)}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "events of consumers": ({"source": BRIDGE, "events": ("a",)}, "a consumer of its own"),
    "a message group": ({"source": BRIDGE, "fair_by": "tenant"}, "leave one of the two out"),
    "no source": ({"source": Source.event_bridge()}, "name one in Source.event_bridge"),
    "a blank source": ({"source": Source.event_bridge(" ")}, "give the `source` of the events"),
    "a reserved source": ({"source": Source.event_bridge("/once/a")}, "does not begin with"),
    "a bus by ARN": ({"source": Source.event_bridge("a", bus="arn:x")}, "the name of an event bus"),
    "another event of S3": ({"source": Source.s3("bucket"), **PLACED}, "event_bridge('aws.s3')"),
    "a bucket by ARN": ({"source": Source.s3("arn:aws:s3:::b")}, "give its name, not its ARN"),
    "a topic by name": ({"source": Source.sns("orders")}, "is no ARN of a standard topic"),
    "a FIFO topic": ({"source": Source.sns(f"{TOPIC}.fifo")}, "is no ARN of a standard topic"),
    "an id of its own": ({"source": Source.sns(TOPIC, envelope_id=True)}, "have an id of their"),
    "no type": ({"source": Source.json()}, "give one of the two"),
    "two types": ({"source": Source.json(type="a", type_field="b")}, "give one of the two"),
    "another type": ({"source": Source.json(type="a"), **PLACED}, "give external=('a',)"),
    "a sender by name": ({"source": Source.json(type="a", senders=("shop",))}, "no ARN of a prin"),
    "no schedule": ({"source": Source.schedule("daily")}, "give cron(…), rate(…) or at(…)"),
    "two types of a schedule": (
        {"source": Source.schedule("rate(1 day)"), "external": ("a", "b")},
        "a consumer for each further schedule",
    ),
    "no Source": ({"source": "aws.ec2"}, "give a source, such as Source.event_bridge('aws.ec2')"),
}
CONFIG = DeploymentConfig()
LINE = ConsumerProps("bridge", external=("ObjectCreated",))


@pytest.mark.parametrize(("change", "remedy"), BAD.values(), ids=BAD)
def test_a_bad_source_is_refused_with_its_remedy(change: dict[str, Any], remedy: str) -> None:
    faults = consumer_props_faults(replace(LINE, **change), CONFIG)
    assert any(remedy in fault for fault in faults), list(faults)


@pytest.mark.parametrize("name", ["bridge", "topic", "plain"])
def test_the_default_key_is_refused_at_synthesis(tmp_path: Path, name: str) -> None:
    faults = list(consumer_props_faults(line(tmp_path / name, name, key="Key.event()"), CONFIG))
    assert len(faults) == len(LINES[name][0])
    assert "handler.py" in faults[0]
    assert "has the default key" in faults[0]


def test_lines_of_one_identity_have_one_source(tmp_path: Path) -> None:
    old = line(tmp_path / "old", "bridge")
    new = replace(line(tmp_path / "new", "bridge"), name="rule", renamed_from="bridge")
    assert consumer_set_faults([old, new], CONFIG) == []
    other = replace(new, source=Source.event_bridge("aws.ec2", bus="other"))
    [fault] = consumer_set_faults([old, other], CONFIG)
    assert "take different types" in fault


WIRING: dict[str, tuple[str, dict[str, Any], str]] = {
    "no bucket": ("files", {"source": Source.s3()}, "its source names no bucket"),
    "two buckets": ("files", {}, "it has bucket="),
    "a bucket of another source": ("plain", {}, "it has bucket="),
}


@pytest.mark.parametrize(("name", "change", "text"), WIRING.values(), ids=WIRING)
def test_a_bucket_is_given_once(
    tmp_path: Path, name: str, change: dict[str, Any], text: str
) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path), context={"local": True}), "s")
    given: dict[str, Any] = (
        {} if change else {"bucket": s3.Bucket.from_bucket_name(stack, "B", "other")}
    )
    with pytest.raises(SynthError, match=text):
        IdempotentConsumer(
            stack,
            line(tmp_path / name, name, **change),
            dedup_table=DedupTable(stack, "d"),
            **given,
        )
