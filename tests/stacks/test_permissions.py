"""What a function's role may do, and that nothing else gives it more."""

import json

from once.cdk.props import ConsumerProps
from tests.stacks.cloud import Cloud, Json, flat, listed, statements

IN_TRANSACTIONS_ONLY = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}
PLAIN_WRITES = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}


def actions(statement: Json) -> set[str]:
    return {str(action) for action in listed(statement["Action"])}


def named(cloud: Cloud, consumer: ConsumerProps, sid: str) -> Json:
    (found,) = (s for s in statements(cloud, consumer) if s["Sid"] == sid)
    return found


def allowing(cloud: Cloud, consumer: ConsumerProps, *wanted: str) -> list[Json]:
    return [s for s in statements(cloud, consumer) if actions(s) & set(wanted)]


def own_records(consumer: ConsumerProps) -> Json:
    return {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{consumer.name}#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def test_tables_are_written_inside_a_transaction_only(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    writes = named(cloud, consumer, "WriteInTransactions")
    assert actions(writes) == PLAIN_WRITES
    assert writes["Condition"] == IN_TRANSACTIONS_ONLY


def test_dedup_records_are_its_own_and_put_inside_a_transaction_only(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    writes = named(cloud, consumer, "WriteOwnRecordsInTransactions")
    ledger = {"dynamodb:UpdateItem"} if consumer.has_effects else set()
    assert actions(writes) == {"dynamodb:PutItem"} | ledger
    assert writes["Condition"] == {**IN_TRANSACTIONS_ONLY, **own_records(consumer)}


def test_on_the_embedded_aws_a_key_it_does_not_know_is_not_demanded(
    local_cloud: Cloud, consumer: ConsumerProps
) -> None:
    without = {k: v for k, v in own_records(consumer).items() if k != "Null"}
    writes = named(local_cloud, consumer, "WriteOwnRecordsInTransactions")
    assert writes["Condition"] == {**IN_TRANSACTIONS_ONLY, **without}
    assert named(local_cloud, consumer, "ReadOwnRecords")["Condition"] == without


def test_condition_check_stands_alone_without_the_condition(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    (check,) = allowing(cloud, consumer, "dynamodb:ConditionCheckItem")
    assert actions(check) == {"dynamodb:ConditionCheckItem"}
    assert "Condition" not in check


def test_reads_are_plain(cloud: Cloud, consumer: ConsumerProps) -> None:
    reads = {"dynamodb:GetItem", "dynamodb:BatchGetItem"}
    assert actions(named(cloud, consumer, "Read")) == reads
    assert "Condition" not in named(cloud, consumer, "Read")
    assert actions(named(cloud, consumer, "ReadOwnRecords")) == reads
    assert named(cloud, consumer, "ReadOwnRecords")["Condition"] == own_records(consumer)


def test_nothing_else_of_dynamodb_is_allowed(cloud: Cloud, consumer: ConsumerProps) -> None:
    allowed = {a for s in statements(cloud, consumer) for a in actions(s) if "dynamodb:" in a}
    assert allowed == PLAIN_WRITES | {
        "dynamodb:ConditionCheckItem",
        "dynamodb:GetItem",
        "dynamodb:BatchGetItem",
    }


def test_tables_are_its_own(cloud: Cloud, consumer: ConsumerProps) -> None:
    wanted = {f"<{cloud.logical_id(f'once-state/{table.name}')}.Arn>" for table in consumer.tables}
    for sid in ("WriteInTransactions", "CheckInTransactions", "Read"):
        found = listed(named(cloud, consumer, sid)["Resource"])
        assert {cloud.exported(resource) for resource in found} == wanted


def test_records_are_in_the_dedup_table(cloud: Cloud, consumer: ConsumerProps) -> None:
    for sid in ("WriteOwnRecordsInTransactions", "ReadOwnRecords"):
        resource = named(cloud, consumer, sid)["Resource"]
        assert cloud.exported(resource) == f"<{cloud.logical_id('once-state/dedup-records')}.Arn>"


def test_it_sends_to_its_own_dead_letters_and_isolation_queue_only(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    sends = allowing(cloud, consumer, "sqs:SendMessage")
    assert all(actions(send) == {"sqs:SendMessage"} for send in sends)
    to = ["DeadLetters", *(["Isolation"] if consumer.batch_size > 1 else [])]
    assert [send["Resource"] for send in sends] == [cloud.arn(consumer, queue) for queue in to]


def test_it_consumes_its_own_queues_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    (consume,) = allowing(cloud, consumer, "sqs:ChangeMessageVisibility")
    assert actions(consume) == {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ChangeMessageVisibility",
    }
    own = ["Queue", *(["Isolation"] if consumer.batch_size > 1 else [])]
    assert listed(consume["Resource"]) == [cloud.arn(consumer, queue) for queue in own]


def test_it_writes_its_own_log_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    (log,) = allowing(cloud, consumer, "logs:PutLogEvents")
    assert actions(log) == {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert log["Resource"] == cloud.arn(consumer, "Log")


def test_it_sends_traces_which_belong_to_no_resource(cloud: Cloud, consumer: ConsumerProps) -> None:
    (trace,) = allowing(cloud, consumer, "xray:PutTraceSegments")
    assert actions(trace) == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    assert (trace["Sid"], trace["Resource"]) == ("Trace", "*")


def test_it_reads_the_secrets_of_its_line_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    reads = [s for s in statements(cloud, consumer) if "secretsmanager" in json.dumps(s["Action"])]
    assert all(actions(read) == {"secretsmanager:GetSecretValue"} for read in reads)
    found = {cloud.exported(arn) for read in reads for arn in listed(read["Resource"])}
    ids = [cloud.logical_id(f"once-state/secret-{name}") for name in consumer.secrets]
    assert found == {f"<{logical_id}.Id>" for logical_id in ids}


def test_it_sends_email_from_the_one_address_if_its_line_says_so(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    sends = [s for s in statements(cloud, consumer) if "ses:" in json.dumps(s["Action"])]
    assert len(sends) == consumer.sends_email
    for send in sends:
        assert actions(send) == {"ses:SendEmail"}
        assert flat(send["Resource"]) == (
            "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*"
        )
        assert send["Condition"] == {"StringEquals": {"ses:FromAddress": "orders@example.com"}}


def test_no_other_statement_has_a_wildcard(cloud: Cloud, consumer: ConsumerProps) -> None:
    others = [s for s in statements(cloud, consumer) if s["Sid"] not in {"SendEmail", "Trace"}]
    assert "*" not in json.dumps([[s["Action"], s["Resource"]] for s in others])


def test_only_lambda_takes_the_role_and_nothing_adds_to_it(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    role = cloud.of(consumer, "Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert "ManagedPolicyArns" not in role
    assert cloud.types(cloud.service).isdisjoint({"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"})
    assert cloud.of(consumer, "Function")["Role"] == cloud.arn(consumer, "Role")
