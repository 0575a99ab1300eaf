"""A deployment, found by the outputs of its stacks, and reading its dedup records."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from once.event_sources import Source
from once.events.identity import Key
from once.names import Limits, Record, StackOutput
from once.ops.aws.clients import ATTEMPTS, client
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.dead_letters.dead_letter import dead_letter_queues
from once.ops.dedup_records import DedupRecordReader, ItemTable, read_record, record_lines
from once.ops.errors import OpsError
from tests.once.item_orders import Orders, event, running
from tests.once.support import calls, event_of
from tests.ops.cloud import Cloud
from tests.ops.outboxes import commit_each
from tests.ops.support import OK, answer_with, refusal, requests_of, stderr_of
from tests.ops.tracing import TABLE, Saga, moments, placed

# Written out: stacks that are deployed already have these keys.
OPTIONAL = {
    "IngressTopicArn": "ingress",
    "EventsTopicArn": "events",
    "RelayFunction": "once-outbox_relay",
    "RelayDeadLetters": "relay-messages",
    "UnroutedQueue": "unrouted",
    "SweepQueue": "sweep",
}
OUTPUTS = {
    **OPTIONAL,
    "DedupTable": "dedup",
    "OperatorLog": "operator-log",
    "TableDeadThings": "once-state-deadthings",
    "FunctionRelayedMail2": "once-relayed_mail_2",
    "QueueRelayedMail2": "queue",
    "IsolationRelayedMail2": "isolation",
    "DeadLettersRelayedMail2": "letters",
    "IdentityRelayedMail2": "mail",
    "TakesRelayedMail2": (
        '{"external": ["a"], "events": ["b"], "keys": {"a": ["field", "id"]}, '
        '"volatile": {"a": ["sent"], "b": null}, "grouped_by": "tenant"}'
    ),
}


def test_outputs_of_deployed_stacks_are_read() -> None:
    mail = DeployedConsumer(
        name="relayed_mail_2",
        queue_url="queue",
        dead_letter_url="letters",
        function_name="once-relayed_mail_2",
        external=("a",),
        events=("b",),
        isolation_queue_url="isolation",
        identity="mail",
        keys={"a": Key.field("id")},
        volatile={"a": ("sent",), "b": None},
        grouped_by="tenant",
    )
    assert Deployment.of("once", OUTPUTS) == Deployment(
        service="once",
        ingress_topic_arn="ingress",
        events_topic_arn="events",
        relay_function_name="once-outbox_relay",
        relay_dead_letter_url="relay-messages",
        unrouted_queue_url="unrouted",
        sweep_queue_url="sweep",
        dedup_table="dedup",
        operator_log="operator-log",
        tables={"dead_things": "once-state-deadthings"},
        consumers={"relayed_mail_2": mail},
    )


def test_error_for_a_missing_output_says_to_deploy_again() -> None:
    for key in OUTPUTS.keys() - {"TableDeadThings", "IsolationRelayedMail2", *OPTIONAL}:
        left = {name: value for name, value in OUTPUTS.items() if name != key}
        if key == "FunctionRelayedMail2":  # without its function, there is no consumer
            assert Deployment.of("once", left).consumers == {}
            continue
        with pytest.raises(OpsError, match=f"no output '{key}': deploy them again"):
            Deployment.of("once", left)


def test_a_deployment_without_relay_and_topics_says_what_it_lacks() -> None:
    smallest = Deployment.of("once", {k: v for k, v in OUTPUTS.items() if k not in OPTIONAL})
    with pytest.raises(OpsError, match="'once' has no ingress topic: no consumer takes events of"):
        smallest.ingress_topic("a")
    with pytest.raises(OpsError, match="'once' has no outbox relay: no consumer publishes"):
        _ = smallest.relay
    assert [each.owner for each in dead_letter_queues(smallest)] == ["relayed_mail_2"]


def test_consumers_of_further_stacks_are_found_with_those_of_the_service_stack(
    cloud: Cloud,
) -> None:
    moved = {key: cloud.service.pop(key) for key in [*cloud.service] if key.endswith("Inventory")}
    cloud.service[StackOutput.FURTHER_STACKS] = "once-service-2,once-service-3"
    cloud.outputs["once-service-2"] = moved
    with pytest.raises(OpsError, match="no stack 'once-service-3' in us-east-1: deploy first"):
        Deployment.find()
    cloud.outputs["once-service-3"] = {}
    assert Deployment.find().consumers.keys() == {"inventory", "orders"}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (Source.event_bridge("aws.ec2", "shop", envelope_id=True), ["aws.ec2", "shop"]),
        (Source.event_bridge("aws.ec2"), []),
        (Source.s3("uploads"), ["arn:aws:s3:::uploads"]),
        (Source.sns("arn:topic", type="paid", envelope_id=True), ["arn:topic"]),
        (Source.sns("arn:topic"), []),
        (Source.schedule("rate(1 day)"), ["once-mail"]),
        (None, []),
    ],
)
def test_sources_of_ids_are_those_that_the_lines_name(
    source: Source | None, named: list[str]
) -> None:
    types = json.loads(OUTPUTS["TakesRelayedMail2"])
    types |= {} if source is None else {"source": source.to_builtins()}
    deployment = Deployment.of("once", {**OUTPUTS, "TakesRelayedMail2": json.dumps(types)})
    assert deployment.sources == ["/once-send", *named]


def test_another_service_has_another_pair_of_stacks(cloud: Cloud) -> None:
    for part in ("state", "service"):
        cloud.outputs[f"shop-{part}"] = cloud.outputs.pop(f"once-{part}")
    assert Deployment.find("shop").ingress_topic_arn == cloud.service[StackOutput.INGRESS_TOPIC]
    with pytest.raises(OpsError, match=r"no stack 'once-state' in us-east-1: deploy.*there: shop$"):
        Deployment.find()


def test_error_for_an_unknown_consumer_or_table_lists_the_known_ones(cloud: Cloud) -> None:
    found = Deployment.find()
    with pytest.raises(OpsError, match="no consumer 'refunds': choose one of inventory, orders"):
        found.consumer("refunds")
    with pytest.raises(OpsError, match="no table 'refunds': choose one of stock"):
        found.table("refunds")


def test_error_of_the_environment_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set AWS_REGION" in stderr_of("status")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    assert client("sqs").meta.region_name == "eu-west-1"
    assert "Unable to locate credentials: sign in" in stderr_of("status")
    monkeypatch.setenv("AWS_PROFILE", "unknown")
    assert "aws configure list-profiles" in stderr_of("status")


REMEDIES = {
    "ExpiredToken": "sign in",
    "InvalidClientTokenId": "sign in",
    "AccessDenied": "have this action granted",
    "InternalFailure": "InternalFailure",
}


@pytest.mark.usefixtures("cloud")
def test_error_of_aws_names_a_remedy() -> None:
    answers = [refusal(code) for code in reversed(REMEDIES)]
    answer_with("cloudformation.DescribeStacks", lambda params: answers[-1])
    for remedy in REMEDIES.values():
        assert remedy in stderr_of("status")
        answers.pop()


# Dedup records, in batches of keys, from the dedup table and from items.


GET = "dynamodb.BatchGetItem"


def test_keys_are_read_consistently_in_batches_of_a_hundred(cloud: Cloud) -> None:
    known = [f"orders#{number}" for number in range(105)]
    commit_each(cloud, *known)
    asked = requests_of(GET)
    assert len(DedupRecordReader(client("dynamodb"), TABLE).get([*known, *known])) == 105
    batches = [request["RequestItems"][TABLE] for request in asked]
    assert max(len(batch["Keys"]) for batch in batches) <= Limits.BATCH_GET_KEYS
    assert all(batch["ConsistentRead"] for batch in batches)
    keys = [key["pk"]["S"] for batch in batches for key in batch["Keys"]]
    assert len(keys) == len(set(keys))


def leave_unprocessed(times: int) -> list[Any]:
    """Let DynamoDB leave all keys unprocessed, so many times; return the requests."""
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(json.loads(params["body"])["RequestItems"])
        return (
            (OK, {"Responses": {}, "UnprocessedKeys": asked[-1]}) if len(asked) <= times else None
        )

    answer_with(GET, answer)
    return asked


def test_unprocessed_keys_are_requested_again(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"))
    saga.commit("inventory", placed("o-1"))
    leave_unprocessed(1)
    assert len(moments(saga.pk("orders", placed("o-1")))) == 2


def test_error_for_a_table_without_capacity_names_a_remedy(saga: Saga) -> None:
    asked = leave_unprocessed(ATTEMPTS)
    said = stderr_of("trace", "orders#event#/shop#e")
    assert "no capacity to read records of physical-dedup: run the command again" in said
    assert len(asked) == ATTEMPTS


def test_key_above_the_size_limit_is_not_requested(saga: Saga) -> None:
    asked = requests_of(GET)
    longest = "orders#" + "x" * (Limits.PARTITION_KEY_BYTES - len("orders#"))
    for key in (longest, longest + "x"):
        stderr_of("trace", key)
        assert len(asked) == 1


TABLES = {"orders": ItemTable("orders", ("order_id",))}


def pk_of(event_type: str, order_id: str | int) -> str:
    found = event_of({"order_id": order_id}, type=event_type)
    return Key.field("order_id").of(found, fingerprint="", consumer="orders")


@pytest.fixture
def shop() -> Iterator[Orders]:
    with running() as found:
        found.run(event("placed", "a#1%"), event("captured", "a#1%"), event("placed", "b"))
        yield found


def test_records_are_found_on_their_items(shop: Orders) -> None:
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    keys = [pk_of("placed", "a#1%"), pk_of("captured", "a#1%"), pk_of("placed", "b")]
    unknown = [pk_of("captured", "b"), pk_of("placed", 7), "orders#event#/s#e", "other#event#/s#e"]
    found = reader.get([*keys, *unknown])
    assert [item[Record.PK]["S"] for item in found] == keys
    types = [item[Record.EVENT_TYPE]["S"] for item in found]
    assert types == ["placed", "captured", "placed"]
    assert all(read_record(item).intent is None for item in found)
    [committed, remembered] = record_lines(found[0], datetime.now(UTC))
    assert committed.startswith("accepted, committed at")
    assert remembered.startswith("remembered until")


def test_the_other_attributes_of_the_item_are_not_read(shop: Orders) -> None:
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    with calls(shop.aws.dynamodb) as made:
        assert len(reader.get([pk_of("placed", "b"), pk_of("captured", "b")])) == 1
    [(_, request)] = made
    names = request["RequestItems"]["orders"]["ExpressionAttributeNames"].values()
    assert {*names} == {"order_id", "once#orders#placed", "once#orders#captured"}


def test_a_number_is_not_the_text_of_an_items_key(shop: Orders) -> None:
    shop.run(event("placed", "int:7"))
    reader = DedupRecordReader(shop.aws.dynamodb, "dedup", TABLES)
    assert reader.get([pk_of("placed", 7)]) == []
    assert len(reader.get([pk_of("placed", "int:7")])) == 1


def test_the_tables_are_those_of_the_stacks_outputs(shop: Orders) -> None:
    taken = {"item_table": "shop_orders", "item_key": ["order_id"]}
    more = {
        "TableShopOrders": "physical-orders",
        "TakesRelayedMail2": json.dumps(json.loads(OUTPUTS["TakesRelayedMail2"]) | taken),
    }
    without, with_items = (Deployment.of("shop", each) for each in (OUTPUTS, OUTPUTS | more))
    assert DedupRecordReader.of(shop.aws.dynamodb, without).items == {}
    found = DedupRecordReader.of(shop.aws.dynamodb, with_items)
    assert list(found.items.values()) == [ItemTable("physical-orders", ("order_id",))]
