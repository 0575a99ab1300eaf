"""`IdempotentConsumer` in an app of its own: existing parts, and faults with their remedies."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from once.cdk import (
    ConsumerProps,
    DedupTable,
    DeploymentConfig,
    IdempotentConsumer,
    Network,
    OutboxRelay,
    Rollout,
    SynthError,
    TableProps,
    Topics,
)
from once.cdk.topics import NO_EVENT
from once.settings import Settings
from stacks.folders import ROOT
from tests.stacks.cloud import Json, flat, listed, resources_of

QUEUE_ARN = "arn:aws:sqs:eu-west-1:111122223333:bookings"
TABLE_ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/seats"
TICKETS = ConsumerProps(
    "tickets",
    external=("seat.booked",),
    tables=(TableProps("seats", "show"),),
    folder=ROOT / "tests" / "wheel" / "app" / "functions" / "tickets",
)


Make = Callable[[cdk.Stack], sqs.Queue]


def existing_queue(stack: cdk.Stack) -> sqs.IQueue:
    return sqs.Queue.from_queue_arn(stack, "Bookings", QUEUE_ARN)


def make(stack: cdk.Stack, props: ConsumerProps = TICKETS, **parts: Any) -> IdempotentConsumer:
    seats = dynamodb.Table.from_table_arn(stack, "Seats", TABLE_ARN)
    given = {"dedup_table": DedupTable(stack, "dedup"), "tables": {"seats": seats}, **parts}
    return IdempotentConsumer(stack, props, **given)


def statements(stack: cdk.Stack) -> dict[str, Json]:
    [role] = resources_of(stack, "AWS::IAM::Role")
    [policy] = role["Policies"]
    return {statement["Sid"]: statement for statement in policy["PolicyDocument"]["Statement"]}


def settings(stack: cdk.Stack) -> Settings:
    [function] = resources_of(stack, "AWS::Lambda::Function")
    variables = function["Environment"]["Variables"]
    return Settings.from_env({name: flat(value) for name, value in variables.items()})


def test_an_existing_queue_and_table_are_used_and_not_made(stack: cdk.Stack) -> None:
    make(stack, queue=existing_queue(stack))
    queues = [queue["QueueName"] for queue in resources_of(stack, "AWS::SQS::Queue")]
    assert sorted(queues) == ["once-tickets-dead-letters", "once-tickets-isolation"]
    assert len(resources_of(stack, "AWS::DynamoDB::Table")) == 1
    assert settings(stack).tables["seats"].name == "seats"
    assert settings(stack).queue_url.endswith("/111122223333/bookings")
    mappings = resources_of(stack, "AWS::Lambda::EventSourceMapping")
    assert QUEUE_ARN in [flat(mapping["EventSourceArn"]) for mapping in mappings]
    allowed = statements(stack)
    assert QUEUE_ARN in listed(allowed["ConsumeOwnQueues"]["Resource"])
    assert "sqs:ChangeMessageVisibility" in allowed["ConsumeOwnQueues"]["Action"]
    assert listed(allowed["WriteInTransactions"]["Resource"]) == [TABLE_ARN]
    assert "UseKey0" not in allowed


def test_without_topics_its_own_queue_has_no_subscription(stack: cdk.Stack) -> None:
    make(stack)
    queues = [queue["QueueName"] for queue in resources_of(stack, "AWS::SQS::Queue")]
    assert "once-tickets" in queues
    assert resources_of(stack, "AWS::SNS::Subscription") == []


def test_it_publishes_through_a_relay(stack: cdk.Stack) -> None:
    publishing = replace(TICKETS, publishes=("seat.taken",))
    topics, dedup = Topics.make(stack, consumers=[publishing]), DedupTable(stack, "records")
    publishes = {"tickets": publishing.publishes}
    relay = OutboxRelay(stack, topics=topics, publishes=publishes, dedup_table=dedup)
    make(stack, publishing, topics=topics, relay=relay, dedup_table=dedup)
    assert len(resources_of(stack, "AWS::S3::Bucket")) == 1  # for failed batches of the relay
    [ingress, events] = resources_of(stack, "AWS::SNS::Subscription")
    assert "FilterPolicy" not in ingress
    assert events["FilterPolicy"] == {"type": [NO_EVENT]}


def test_a_relay_on_a_table_without_a_stream_is_refused(stack: cdk.Stack) -> None:
    table = dynamodb.Table.from_table_arn(stack, "Imported", TABLE_ARN)
    topics = Topics.make(stack)
    with pytest.raises(SynthError, match="the dedup table has no stream; make it with DedupTable"):
        OutboxRelay(stack, topics=topics, publishes={}, dedup_table=table)


def relay_for_others(stack: cdk.Stack) -> OutboxRelay:
    topics = Topics.make(stack, published=["sent"])
    dedup = DedupTable(stack, "records")
    return OutboxRelay(stack, topics=topics, publishes={}, dedup_table=dedup)


def own_queue(seconds: int = TICKETS.visibility, **options: Any) -> Make:
    visibility = cdk.Duration.seconds(seconds)
    return lambda stack: sqs.Queue(stack, "Own", visibility_timeout=visibility, **options)


def with_receives(receives: int, **options: Any) -> Make:
    def queue(stack: cdk.Stack) -> sqs.Queue:
        letters = sqs.Queue(stack, "Letters", **options)
        policy = sqs.DeadLetterQueue(queue=letters, max_receive_count=receives)
        return own_queue(dead_letter_queue=policy, **options)(stack)

    return queue


def fifo_queue(stack: cdk.Stack) -> sqs.IQueue:
    return sqs.Queue.from_queue_arn(stack, "Fifo", f"{QUEUE_ARN}.fifo")


def unknown_queue(stack: cdk.Stack) -> sqs.IQueue:
    return sqs.Queue.from_queue_arn(stack, "Unknown", cdk.Fn.import_value("queue"))


PUBLISHING = {"publishes": ("seat.taken",)}
FIFO = {"fifo": True, "ordered_by": "show"}
REFUSED: dict[str, Json] = {
    "it publishes events, and they would stay in its outbox; give relay= an OutboxRelay, or leave "
    "publishes= out": PUBLISHING,
    "the relay does not publish seat.taken for it; give publishes= of": PUBLISHING
    | {"relay": relay_for_others},
    "events has 'seat.booked' without a source; give": {
        "external": (),
        "events": TICKETS.external,
    },
    "it has queue= and topics=; subscribe the existing queue yourself": {
        "queue": existing_queue,
        "topics": Topics.make,
    },
    "its queue is FIFO, whose order the isolation queue would break": {"queue": fifo_queue},
    "fifo=True, and its queue is a standard one; give a FIFO queue": FIFO
    | {"queue": existing_queue},
    "fifo=True, and its queue is a standard one; give a FIFO queue (imported": FIFO
    | {"queue": unknown_queue},
    "fifo=True, and its topics= have no FIFO topic for its types; give its line": FIFO
    | {"topics": Topics.make},
    "its queue has a visibility timeout of 30 s; raise it to": {
        "queue": lambda stack: sqs.Queue(stack, "Own")
    },
    "its queue has a visibility timeout of 179 s; raise it to": {"queue": own_queue(179)},
    "its queue keeps messages for 345601 s; lower its retention to 345600": {
        "queue": own_queue(retention_period=cdk.Duration.seconds(345_601))
    },
    "its queue takes messages of 262144 bytes; raise its maximum message size to 1048576": {
        "queue": own_queue(max_message_size_bytes=262_144)
    },
    "its queue has a maxReceiveCount of 4; raise it to 5": {"queue": with_receives(4)},
    "its queue has a maxReceiveCount of 11; raise it to 12": {
        "queue": with_receives(11),
        "max_receive_count": 12,
    },
    "its queue has a maxReceiveCount of 999; raise it to 1000": FIFO
    | {"queue": with_receives(999, fifo=True)},
    "folder=None; give the path of the folder that holds its handler.py": {"folder": None},
    "folder=x; give the path of the folder that holds its handler.py": {"folder": Path("x")},
}
"""Properties and parts by the fault that they cause. A part is made by a function of the stack."""


@pytest.mark.parametrize(("fault", "given"), REFUSED.items(), ids=REFUSED)
def test_a_fault_states_mistake_and_remedy(stack: cdk.Stack, fault: str, given: Json) -> None:
    change = {name: value for name, value in given.items() if not callable(value)}
    parts = {name: of(stack) for name, of in given.items() if callable(of)}
    with pytest.raises(SynthError, match="consumer 'tickets' cannot be built") as caught:
        make(stack, replace(TICKETS, **change), **parts)
    [found] = caught.value.faults
    assert found.startswith(fault)


def test_an_existing_queue_has_the_receives_of_the_line(stack: cdk.Stack) -> None:
    make(stack, queue=with_receives(TICKETS.max_receive_count)(stack))


def test_properties_of_wrong_types_are_faults(stack: cdk.Stack) -> None:
    wrong: Any = {"name": 3, "parameters": None, "tables": ("seats",), "rollout": "CANARY"}
    with pytest.raises(SynthError) as caught:
        make(stack, replace(TICKETS, **wrong))
    found = {fault.partition("; give a ")[0] for fault in caught.value.faults}
    assert found == {f"{name}={value!r}" for name, value in wrong.items()}


def with_types(folder: Path, name: str) -> ConsumerProps:
    types = [f"{name}.{number}" for number in range(130)]
    handlers = "".join(f"@consumer.handles({each!r}, dict)\ndef handle(): ...\n" for each in types)
    (folder / "handler.py").write_text(handlers)
    return replace(TICKETS, external=tuple(types), folder=folder)


def test_settings_that_are_too_large_for_a_variable_are_a_parameter_that_every_version_reads(
    stack: cdk.Stack, tmp_path: Path
) -> None:
    folder = tmp_path / "functions"
    folder.mkdir()
    large = replace(with_types(folder, "a.type.with.a.long.name"), aws_services=())
    rollout = Rollout.CANARY_10_PERCENT_5_MINUTES
    props = replace(large, rollout=rollout, snap_start=True)
    network = Network(subnets=("subnet-0a1b2c3d",), security_groups=("sg-0a1b2c3d",))
    config = DeploymentConfig(network=network, python_runtime="3.13")
    make(stack, props, config=config)
    template = Template.from_stack(stack)
    [parameter] = template.find_resources("AWS::SSM::Parameter").values()
    name, value = parameter["Properties"]["Name"], parameter["Properties"]["Value"]
    assert Settings.of_json(flat(value)).event_types == props.external
    [function] = template.find_resources("AWS::Lambda::Function").values()
    assert function["Properties"]["Environment"]["Variables"]["ONCE_SETTINGS"] == name
    [(policy_id, policy)] = template.find_resources("AWS::IAM::Policy").items()
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Action"] == "ssm:GetParameter"
    # The serving version keeps its right until the alias has moved, which a rollout delays.
    every = name.rpartition("-")[0]
    assert flat(statement["Resource"]).endswith(f":parameter{every}-*")
    # SnapStart starts the function when the version is published.
    [version] = template.find_resources("AWS::Lambda::Version").values()
    [parameter_id] = template.find_resources("AWS::SSM::Parameter")
    assert {policy_id, parameter_id} <= {*version["DependsOn"]}
    closed = replace(config, network=replace(network, endpoints=("dynamodb", "sqs")))
    with pytest.raises(SynthError, match="'ssm', which the function 'once-tickets' needs"):
        make(cdk.Stack(cdk.App(), "Closed"), props, config=closed)


def test_the_parameter_of_a_function_that_another_tool_deploys_later_is_retained(
    stack: cdk.Stack, tmp_path: Path
) -> None:
    large = with_types(tmp_path, "a.type.with.a.long.name")
    make(stack, large, config=DeploymentConfig(external_functions=True))
    [parameter] = Template.from_stack(stack).find_resources("AWS::SSM::Parameter").values()
    assert parameter["UpdateReplacePolicy"] == "Retain"
    assert parameter["DeletionPolicy"] == "RetainExceptOnCreate"


def test_a_role_that_is_larger_than_iam_takes_is_a_fault(stack: cdk.Stack) -> None:
    # Tables of another stack, as those of `assemble`.
    state = cdk.Stack(cdk.App(), "State")
    tables = {
        f"seats{n}": dynamodb.Table.from_table_arn(state, f"T{n}", f"{TABLE_ARN}-{'of' * 20}-{n}")
        for n in range(40)
    }
    props = replace(TICKETS, tables=tuple(TableProps(name, "id") for name in tables))
    with pytest.raises(SynthError, match=r"in a role .*; give it fewer tables, secrets"):
        make(stack, props, tables=tables)


def test_settings_that_are_too_large_for_a_parameter_are_a_fault(
    stack: cdk.Stack, tmp_path: Path
) -> None:
    with pytest.raises(SynthError, match="Parameter Store takes 8192; give it fewer or shorter"):
        make(stack, with_types(tmp_path, "a.type" + ".with.a.long.name" * 4))


def test_a_queue_of_the_app_that_hides_messages_for_long_enough_is_used(stack: cdk.Stack) -> None:
    queue = own_queue()(stack)
    assert make(stack, queue=queue).queue is queue


def test_an_imported_fifo_queue_is_read_with_fifo_dead_letters(stack: cdk.Stack) -> None:
    consumer = make(stack, replace(TICKETS, fifo=True, ordered_by="show"), queue=fifo_queue(stack))
    assert consumer.isolation is None
    [letters] = resources_of(stack, "AWS::SQS::Queue")
    assert (letters["FifoQueue"], letters["QueueName"]) == (True, "once-tickets-dead-letters.fifo")
    assert settings(stack).queue_url.endswith("/111122223333/bookings.fifo")


def test_parts_that_its_properties_name_must_be_given(stack: cdk.Stack) -> None:
    with pytest.raises(SynthError) as caught:
        make(stack, replace(TICKETS, secrets=("stripe_key",)), tables={})
    assert caught.value.faults == (
        "the table 'seats' is missing; add it to tables= of IdempotentConsumer",
        "the secret 'stripe_key' is missing; add its ARN to secrets= of IdempotentConsumer",
    )


@pytest.mark.parametrize(
    ("kind", "key", "fault"),
    [
        (dynamodb.Table, {"show": "STRING"}, None),
        (dynamodb.Table, {"show": "STRING", "row": "STRING"}, "has the key show, row, and its"),
        (dynamodb.Table, {"show": "NUMBER"}, "the key show of the table 'seats' is not a string"),
        (dynamodb.TableV2, {"place": "STRING"}, "has the key place, and its line show; give Table"),
    ],
)
def test_the_key_of_a_table_of_the_app_is_that_of_the_line(
    stack: cdk.Stack, kind: Any, key: Mapping[str, str], fault: str | None
) -> None:
    parts = (
        dynamodb.Attribute(name=name, type=dynamodb.AttributeType[of]) for name, of in key.items()
    )
    seats = kind(stack, "seats", **dict(zip(("partition_key", "sort_key"), parts, strict=False)))
    with nullcontext() if fault is None else pytest.raises(SynthError, match=fault):
        make(stack, tables={"seats": seats})


def test_faults_of_properties_and_context_come_together(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context={"local": "yes", "dedup_window_days": 7})
    stack = cdk.Stack(app, "tickets")
    with pytest.raises(SynthError) as caught:
        make(stack, replace(TICKETS, batch_size=0))
    begins = ("context local='yes'", "dedup_window_days=7", "batch_size=0")
    assert [f[: len(b)] for f, b in zip(caught.value.faults, begins, strict=True)] == [*begins]
