"""A consumer's source: what is made for it, who may send to its queue, and what is refused."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from once.cdk import ConsumerProps, DedupTable, IdempotentConsumer, Source, SynthError, Topics
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.topics import NO_EVENT
from once.settings import Settings
from tests.stacks.cloud import Json, flat

TOPIC = "arn:aws:sns:eu-west-1:111122223333:orders"
SENDER = "arn:aws:iam::111122223333:role/shop"
HANDLER = """
from msgspec import Struct
from once import Consumer, Key, Transaction
consumer = Consumer({name!r})
class Data(Struct):
    name: str
{handlers}
lambda_handler = consumer.lambda_handler
"""
HANDLES = """
@consumer.handles({event!r}, Data, key={key})
def handle_{number}(event: Data, tx: Transaction) -> None:
    pass
"""
LINES = {
    "bridge": (("Instance Changed", "Instance Gone"), Source.event_bridge("aws.ec2", bus="own")),
    "files": (("ObjectCreated", "ObjectRemoved"), Source.s3("pictures", prefix="in/")),
    "topic": (("order.placed",), Source.sns(TOPIC, attribute="kind", type_field="kind")),
    "plain": (("order.placed",), Source.json(type="order.placed", senders=(SENDER,))),
    "nightly": (("night.fell",), Source.schedule("cron(0 3 * * ? *)", timezone="Europe/Berlin")),
}
Make = Callable[..., ConsumerProps]


def line(folder: Path, name: str, key: str = 'Key.field("name")', **change: Any) -> ConsumerProps:
    """Return a consumer, with a handler of this key rule for each of its types."""
    types, source = LINES[name]
    props = replace(ConsumerProps(name, external=types, source=source), **change)
    handlers = "".join(
        HANDLES.format(event=event, key=key, number=number)
        for number, event in enumerate(props.external)
    )
    folder.mkdir()
    folder.joinpath("handler.py").write_text(HANDLER.format(name=name, handlers=handlers))
    return replace(props, folder=folder)


@pytest.fixture(scope="module")
def props_of(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return lambda name, *key, **change: line(
        tmp_path_factory.mktemp("functions") / name, name, *key, **change
    )


class Deployed:
    """A stack with a consumer of every source."""

    def __init__(self, directory: Path, lines: list[ConsumerProps]) -> None:
        self.app = cdk.App(outdir=str(directory), analytics_reporting=False)
        self.stack = cdk.Stack(self.app, "sources")
        dedup = DedupTable(self.stack, "dedup")
        others = replace(lines[0], name="others", source=None)
        topics = Topics.make(self.stack, consumers=[*lines, others], published=["sent"])
        for props in lines:
            IdempotentConsumer(self.stack, props, dedup_table=dedup, topics=topics)

    def settings(self) -> list[str]:
        """Return the settings of each function."""
        every = (each.get("Environment", {}) for each in self.every("AWS::Lambda::Function"))
        return [flat(each["Variables"]["ONCE_SETTINGS"]) for each in every if each]

    @cached_property
    def template(self) -> Json:
        return dict(Template.from_stack(self.stack).to_json())

    def every(self, kind: str) -> list[Json]:
        found = self.template["Resources"].values()
        return [one["Properties"] for one in found if one["Type"] == kind]

    def one(self, kind: str) -> Json:
        [found] = self.every(kind)
        return found

    def id_of(self, path: str) -> str:
        [found] = [
            name
            for name in self.template["Resources"]
            if re.fullmatch(f"{path}[0-9A-F]{{8}}", name)
        ]
        return str(found)

    def statement(self, queue: str, sid: str) -> Json:
        """Return the statement of a queue's policy."""
        arn = {"Fn::GetAtt": [queue, "Arn"]}
        found: Json
        [found] = [
            one
            for policy in self.every("AWS::SQS::QueuePolicy")
            for one in policy["PolicyDocument"]["Statement"]
            if one.get("Sid") == sid and one["Resource"] == arn
        ]
        return found


@pytest.fixture(scope="module")
def deployed(props_of: Make, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return Deployed(tmp_path_factory.mktemp("out"), [props_of(name) for name in LINES])


def arn(name: str) -> Json:
    return {"Fn::GetAtt": [name, "Arn"]}


def test_a_rule_selects_the_types_and_alone_may_send(deployed: Deployed) -> None:
    queue, letters = deployed.id_of("bridgeQueue"), deployed.id_of("bridgeDeadLetters")
    rule = deployed.one("AWS::Events::Rule")
    assert rule == {
        "Name": "once-bridge",
        "EventBusName": "own",
        "EventPattern": {
            "source": ["aws.ec2"],
            "detail-type": ["Instance Changed", "Instance Gone"],
        },
        "State": "ENABLED",
        "Targets": [{"Id": "Queue", "Arn": arn(queue), "DeadLetterConfig": {"Arn": arn(letters)}}],
    }
    for each in (queue, letters):
        allowed = deployed.statement(each, "OnlyItsRuleSends")
        assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
        assert (allowed["Effect"], allowed["Action"]) == ("Allow", "sqs:SendMessage")
        [only] = allowed["Condition"]["ArnEquals"].values()
        assert flat(only).endswith(":rule/own/once-bridge")


def test_a_rule_exists_after_its_permission_and_after_its_consumer(deployed: Deployed) -> None:
    after = " ".join(deployed.template["Resources"][deployed.id_of("bridgeRule")]["DependsOn"])
    assert all(part in after for part in ("QueuePolicy", "DeadLettersPolicy", "Mapping", "Live"))


def test_a_bucket_notifies_the_queue_and_alone_may_send(deployed: Deployed) -> None:
    queue = deployed.id_of("filesQueue")
    notified = deployed.one("Custom::S3BucketNotifications")
    assert (notified["BucketName"], notified["Managed"]) == ("pictures", False)
    chosen = notified["NotificationConfiguration"]["QueueConfigurations"]
    assert [one["Events"] for one in chosen] == [["s3:ObjectCreated:*"], ["s3:ObjectRemoved:*"]]
    for one in chosen:
        assert one["QueueArn"] == arn(queue)
        assert one["Filter"] == {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}]}}
    allowed = deployed.statement(queue, "OnlyItsBucketSends")
    assert allowed["Principal"] == {"Service": "s3.amazonaws.com"}
    assert flat(allowed["Condition"]["ArnEquals"]["aws:SourceArn"]).endswith(":s3:::pictures")
    account = allowed["Condition"]["StringEquals"]["aws:SourceAccount"]
    assert account == {"Ref": "AWS::AccountId"}


def test_a_topic_delivers_in_its_envelope(deployed: Deployed) -> None:
    [own] = [s for s in deployed.every("AWS::SNS::Subscription") if s["TopicArn"] == TOPIC]
    assert own["Endpoint"] == arn(deployed.id_of("topicQueue"))
    assert not own.get("RawMessageDelivery")
    assert own["FilterPolicy"] == {"kind": ["order.placed"]}
    letters = deployed.id_of("topicDeadLetters")
    assert own["RedrivePolicy"] == {"deadLetterTargetArn": arn(letters)}


def test_declared_senders_alone_may_send(deployed: Deployed) -> None:
    allowed = deployed.statement(deployed.id_of("plainQueue"), "Sender0")
    assert allowed["Principal"] == {"AWS": SENDER}
    assert allowed["Action"] == "sqs:SendMessage"


def test_a_schedule_sends_its_time_as_the_id(deployed: Deployed) -> None:
    queue, letters = deployed.id_of("nightlyQueue"), deployed.id_of("nightlyDeadLetters")
    schedule = deployed.one("AWS::Scheduler::Schedule")
    target = schedule.pop("Target")
    assert schedule == {
        "Name": "once-nightly",
        "ScheduleExpression": "cron(0 3 * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "State": "ENABLED",
    }
    assert (target["Arn"], target["DeadLetterConfig"]) == (arn(queue), {"Arn": arn(letters)})
    time = "<aws.scheduler.scheduled-time>"
    assert json.loads(target["Input"]) == {
        "specversion": "1.0",
        "id": time,
        "source": "once-nightly",
        "type": "night.fell",
        "data": {"scheduled_at": time},
    }
    role = deployed.template["Resources"][target["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
    [policy] = role["Policies"]
    [send] = policy["PolicyDocument"]["Statement"]
    assert (send["Action"], send["Resource"]) == ("sqs:SendMessage", [arn(queue), arn(letters)])
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"].keys() == {"StringEquals", "ArnEquals"}


def test_no_source_is_subscribed_to_the_topics_of_the_deployment(deployed: Deployed) -> None:
    made = deployed.every("AWS::SNS::Subscription")
    idle = [s for s in made if s.get("FilterPolicy") == {"type": [NO_EVENT]}]
    assert len(idle) == len(LINES)  # to the topic of consumers' events, of which they take none
    assert len(made) == len(idle) + 1  # the existing topic's


def test_each_function_has_its_source_in_its_settings(deployed: Deployed) -> None:
    own = [text for text in deployed.settings() if '"event_source":' in text]
    found = {s.consumer: s.event_source for s in map(Settings.of_json, own)}
    assert found == {name: source for name, (_, source) in LINES.items()}


def test_a_retiring_consumer_gets_nothing_more(props_of: Make, tmp_path: Path) -> None:
    lines = [props_of(name, retiring=True) for name in LINES]
    lines[-1] = replace(lines[-1], renamed_from="evenings")
    deployed = Deployed(tmp_path, lines)
    assert deployed.one("AWS::Events::Rule")["State"] == "DISABLED"
    assert deployed.one("AWS::Scheduler::Schedule")["State"] == "DISABLED"
    assert deployed.every("Custom::S3BucketNotifications") == []
    [own] = [s for s in deployed.every("AWS::SNS::Subscription") if s["TopicArn"] == TOPIC]
    assert own["FilterPolicy"] == {"kind": ["once, no event"]}
    assert "Sender0" not in json.dumps(deployed.template)
    # A renamed schedule keeps the source of its events.
    target = deployed.one("AWS::Scheduler::Schedule")["Target"]
    assert json.loads(target["Input"])["source"] == "once-evenings"


def test_the_bucket_of_another_stack_is_given_to_the_construct(
    props_of: Make, tmp_path: Path
) -> None:
    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    bucket = s3.Bucket(cdk.Stack(app, "data"), "Pictures")
    stack = cdk.Stack(app, "consumers")
    props = props_of("files", source=Source.s3())
    IdempotentConsumer(stack, props, dedup_table=DedupTable(stack, "d"), bucket=bucket)
    app.synth()
    template = Template.from_stack(stack)
    template.resource_count_is("Custom::S3BucketNotifications", 1)


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
