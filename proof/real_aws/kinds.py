"""Kinds of resources that a deletion of the stacks leaves behind, and how each is deleted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from proof.real_aws.prefix import LOG_FOLDERS

_DELETED = ("PendingDeletion", "PendingReplicaDeletion")
_KEY_DAYS = 7
"""The shortest time after which AWS KMS deletes a key; it costs nothing in it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource. An id is what the calls that delete take.

    Attributes:
        name: what a person calls it.
        type: CloudFormation's type.
        service: boto3's name of the service.
        delete: deletes one by its id.
        command: the AWS CLI's command that deletes one.
        named: yields the ids of those whose names may begin with a prefix; None if the names do
            not have it, so that only the stacks' lists tell whose they are.
        exists: tells whether the one with this id exists; only without `named`.
    """

    name: str
    type: str
    service: str
    delete: Callable[[Any, str], object]
    command: str
    named: Callable[[Any, str], Iterable[str]] | None = None
    exists: Callable[[Any, str], bool] | None = None


def _pages(client: Any, operation: str, **arguments: Any) -> Iterator[Any]:
    return iter(client.get_paginator(operation).paginate(**arguments))


def _tables(client: Any, _: str) -> Iterator[str]:
    return (name for page in _pages(client, "list_tables") for name in page["TableNames"])


def _delete_table(client: Any, name: str) -> None:
    table = client.describe_table(TableName=name)["Table"]
    if table["TableStatus"] == "DELETING":
        return
    if table.get("DeletionProtectionEnabled"):
        client.update_table(TableName=name, DeletionProtectionEnabled=False)
        client.get_waiter("table_exists").wait(TableName=name)
    client.delete_table(TableName=name)


def _queues(client: Any, prefix: str) -> Iterator[str]:
    pages = _pages(client, "list_queues", QueueNamePrefix=prefix)
    return (url for page in pages for url in page.get("QueueUrls", []))


def _topics(client: Any, _: str) -> Iterator[str]:
    pages = _pages(client, "list_topics")
    return (topic["TopicArn"] for page in pages for topic in page["Topics"])


def _log_groups(client: Any, prefix: str) -> Iterator[str]:
    for start in (prefix, *(f"{folder}{prefix}" for folder in LOG_FOLDERS)):
        for page in _pages(client, "describe_log_groups", logGroupNamePrefix=start):
            yield from (group["logGroupName"] for group in page["logGroups"])


def _buckets(client: Any, _: str) -> Iterator[str]:
    return (bucket["Name"] for bucket in client.list_buckets()["Buckets"])


def _delete_bucket(client: Any, name: str) -> None:
    for page in _pages(client, "list_object_versions", Bucket=name):
        for each in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
            client.delete_object(Bucket=name, Key=each["Key"], VersionId=each["VersionId"])
    client.delete_bucket(Bucket=name)


def _functions(client: Any, _: str) -> Iterator[str]:
    pages = _pages(client, "list_functions")
    return (function["FunctionName"] for page in pages for function in page["Functions"])


def _roles(client: Any, _: str) -> Iterator[str]:
    return (role["RoleName"] for page in _pages(client, "list_roles") for role in page["Roles"])


def _delete_role(client: Any, name: str) -> None:
    for policy in client.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        client.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    for inline in client.list_role_policies(RoleName=name)["PolicyNames"]:
        client.delete_role_policy(RoleName=name, PolicyName=inline)
    client.delete_role(RoleName=name)


def _secret_exists(client: Any, arn: str) -> bool:
    try:
        return "DeletedDate" not in client.describe_secret(SecretId=arn)
    except client.exceptions.ResourceNotFoundException:
        return False


def _key_exists(client: Any, key: str) -> bool:
    try:
        return client.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] not in _DELETED
    except ClientError as error:
        if error.response["Error"]["Code"] == "NotFoundException":
            return False
        raise


KINDS = (
    Kind(
        *("role", "AWS::IAM::Role", "iam", _delete_role),
        command="aws iam delete-role --role-name {id}",
        named=_roles,
    ),
    Kind(
        *("function", "AWS::Lambda::Function", "lambda"),
        lambda client, name: client.delete_function(FunctionName=name),
        command="aws lambda delete-function --function-name {id}",
        named=_functions,
    ),
    Kind(
        *("queue", "AWS::SQS::Queue", "sqs", lambda client, url: client.delete_queue(QueueUrl=url)),
        command="aws sqs delete-queue --queue-url {id}",
        named=_queues,
    ),
    Kind(
        *("topic", "AWS::SNS::Topic", "sns", lambda client, arn: client.delete_topic(TopicArn=arn)),
        command="aws sns delete-topic --topic-arn {id}",
        named=_topics,
    ),
    Kind(
        *("table", "AWS::DynamoDB::Table", "dynamodb", _delete_table),
        command="aws dynamodb update-table --no-deletion-protection-enabled --table-name {id} && "
        "aws dynamodb delete-table --table-name {id}",
        named=_tables,
    ),
    Kind(
        *("bucket", "AWS::S3::Bucket", "s3", _delete_bucket),
        command="aws s3 rb --force s3://{id}",
        named=_buckets,
    ),
    Kind(
        *("secret", "AWS::SecretsManager::Secret", "secretsmanager"),
        lambda client, arn: client.delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True),
        command="aws secretsmanager delete-secret --force-delete-without-recovery --secret-id {id}",
        exists=_secret_exists,
    ),
    Kind(
        *("key", "AWS::KMS::Key", "kms"),
        lambda client, key: client.schedule_key_deletion(KeyId=key, PendingWindowInDays=_KEY_DAYS),
        command="aws kms schedule-key-deletion --pending-window-in-days 7 --key-id {id}",
        exists=_key_exists,
    ),
    # Last: a function that was running may have made its log group anew.
    Kind(
        *("log group", "AWS::Logs::LogGroup", "logs"),
        lambda client, name: client.delete_log_group(logGroupName=name),
        command="aws logs delete-log-group --log-group-name {id}",
        named=_log_groups,
    ),
)
IMPLIED = {
    *("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::S3::BucketPolicy"),
    "AWS::SNS::Subscription",
}
"""Types that AWS deletes together with their queue, topic or bucket."""
