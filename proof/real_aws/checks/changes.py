"""Checks of what a later deployment takes out: an endpoint, and a table that was restored."""

from collections.abc import Iterator

from proof.real_aws.app import HOOK, LEAVING
from proof.real_aws.checks.check import Check, Seen, not_observed, verdict, waiting
from proof.real_aws.checks.function_url import post, signed
from proof.real_aws.checks.queues import held
from proof.real_aws.target import Target

_GONE, _THERE = 404, 401


def _endpoint_removal(target: Target) -> Iterator[Seen]:
    ingress = target.parts.webhooks
    assert ingress is not None  # noqa: S101, the app has one
    target.redeploy(verify_without=LEAVING.name)
    urls = [f"{ingress.url}{each.name}" for each in (LEAVING, HOOK)]
    while (answers := [_forged(url) for url in urls]) != [_GONE, _THERE]:
        yield waiting(f"answers of the removed endpoint and of the other one: {answers}")
    kept = target.client("secretsmanager").describe_secret(SecretId=ingress.secrets[LEAVING.name])
    text = f"deployed; answers of the removed endpoint and of the other one: {answers}"
    yield verdict("DeletedDate" not in kept, f"{text}; its secret is retained")


def _forged(url: str) -> int:
    return post(url, signed(b"{}", "another secret"), b"{}")


def _table_recovery(target: Target) -> Iterator[Seen]:
    if target.local:
        yield not_observed("tests/e2e/test_change.py restores and replaces tables on this AWS")
        return
    dynamodb, name = target.client("dynamodb"), f"{target.parts.service}-restored"
    restored = dynamodb.restore_table_to_point_in_time(
        SourceTableName=target.parts.table("holds"),
        TargetTableName=name,
        UseLatestRestorableTime=True,
    )["TableDescription"]
    while (now := dynamodb.describe_table(TableName=name)["Table"]["TableStatus"]) != "ACTIVE":
        yield waiting(f"the restored table is {now}")
    target.redeploy(verify_holds=restored["TableArn"])
    target.publish([held(target, "restored")], "verify.held")
    key = {"id": {"S": target.id("restored")}}
    while "Item" not in dynamodb.get_item(TableName=name, Key=key, ConsistentRead=True):
        yield waiting("deployed; an event is not committed to the restored table yet")
    holds = not target.item("holds", "restored")
    yield verdict(holds, f"an event after the deployment is in {name}; and not in the old: {holds}")


ENDPOINT_REMOVAL = Check(
    "endpoint-removal",
    "one deployment of both stacks removes a webhook endpoint, whose secret is retained",
    1200,
    _endpoint_removal,
    if_not="deploy the service stack alone first: cdk deploy --exclusively SERVICE-service. Then "
    "both. Report it",
)
TABLE_RECOVERY = Check(
    "table-recovery",
    "a table restored to a point in time takes the place of the old one by existing_tables",
    3600,
    _table_recovery,
    if_not="after an accident copy the restored items into the old table, with the consumers "
    "stopped. Report it",
)
