"""Clean-up: deletes both stacks of a prefix and everything that they retain, and looks again.

A resource belongs to the prefix if its name begins with it, or if it is in the list of a stack
whose name does. Nothing else is ever deleted.
"""

import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.errors import OpsError
from proof.real_aws.account import ClientOf

STEM = "once-verify-"
_PREFIX = re.compile(rf"{STEM}[0-9a-f]{{8}}")
LOG_FOLDERS = ("/aws/lambda/", "/aws/apigateway/", "/aws/cloudformation/")
"""The first parts of log groups' names, which AWS or the constructs add."""


def new_prefix() -> str:
    """Return a prefix that no earlier run had."""
    return f"{STEM}{secrets.token_hex(4)}"


def checked_prefix(prefix: str) -> str:
    """Return the prefix.

    Raises:
        OpsError: it is not one of a run. Clean-up of `once` would delete a production service.
    """
    if not _PREFIX.fullmatch(prefix):
        raise OpsError(
            f"{prefix!r} is no prefix of a run: give {STEM} and eight digits of 0-9a-f, as the run "
            "printed them and reports/verify.json has them"
        )
    return prefix


def owns(prefix: str, name: str) -> bool:
    """Tell whether a physical name, the last part of an ARN or of a URL, is one of the prefix."""
    for folder in LOG_FOLDERS:
        name = name.removeprefix(folder)
    return name.startswith(f"{prefix}-")


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


def _listed(
    operation: str, path: str, argument: str = "", folders: Sequence[str] = ("",)
) -> Callable[[Any, str], Iterator[str]]:
    """Return a function that lists ids: all, or those that begin with a prefix in some folders.

    Args:
        operation: the name of a list operation with pages.
        path: JMESPath to the ids in a page.
        argument: of the operation, for the prefix; without it, all are listed.
        folders: what names may have before the prefix.
    """

    def named(client: Any, prefix: str) -> Iterator[str]:
        for folder in folders:
            start = {argument: f"{folder}{prefix}"} if argument else {}
            found = client.get_paginator(operation).paginate(**start).search(path)
            yield from (each for each in found if each)  # a page without the list gives None

    return named


def _delete_table(client: Any, name: str) -> None:
    table = client.describe_table(TableName=name)["Table"]
    if table["TableStatus"] == "DELETING":
        return
    if table.get("DeletionProtectionEnabled"):
        client.update_table(TableName=name, DeletionProtectionEnabled=False)
        client.get_waiter("table_exists").wait(TableName=name)
    client.delete_table(TableName=name)


def _delete_bucket(client: Any, name: str) -> None:
    for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
        for each in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
            client.delete_object(Bucket=name, Key=each["Key"], VersionId=each["VersionId"])
    client.delete_bucket(Bucket=name)


def delete_role(client: Any, name: str) -> None:
    """Delete a role with its policies; managed ones are only taken from it."""
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
        *("role", "AWS::IAM::Role", "iam", delete_role),
        command="aws iam delete-role --role-name {id}",
        named=_listed("list_roles", "Roles[].RoleName"),
    ),
    Kind(
        *("function", "AWS::Lambda::Function", "lambda"),
        lambda client, name: client.delete_function(FunctionName=name),
        command="aws lambda delete-function --function-name {id}",
        named=_listed("list_functions", "Functions[].FunctionName"),
    ),
    Kind(
        *("queue", "AWS::SQS::Queue", "sqs", lambda client, url: client.delete_queue(QueueUrl=url)),
        command="aws sqs delete-queue --queue-url {id}",
        named=_listed("list_queues", "QueueUrls[]", "QueueNamePrefix"),
    ),
    Kind(
        *("topic", "AWS::SNS::Topic", "sns", lambda client, arn: client.delete_topic(TopicArn=arn)),
        command="aws sns delete-topic --topic-arn {id}",
        named=_listed("list_topics", "Topics[].TopicArn"),
    ),
    Kind(
        *("table", "AWS::DynamoDB::Table", "dynamodb", _delete_table),
        command="aws dynamodb update-table --no-deletion-protection-enabled --table-name {id} && "
        "aws dynamodb delete-table --table-name {id}",
        named=_listed("list_tables", "TableNames[]"),
    ),
    Kind(
        *("bucket", "AWS::S3::Bucket", "s3", _delete_bucket),
        command="aws s3 rb --force s3://{id}",
        named=_listed("list_buckets", "Buckets[].Name"),
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
        named=_listed(
            *("describe_log_groups", "logGroups[].logGroupName", "logGroupNamePrefix"),
            folders=("", *LOG_FOLDERS),
        ),
    ),
)
IMPLIED = {
    *("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::S3::BucketPolicy"),
    "AWS::SNS::Subscription",
}
"""Types that AWS deletes together with their queue, topic or bucket."""


LIMIT_SECONDS = 1800.0
_POLL_SECONDS = 5.0
_STACKS = ("service", "state")
"""In this order: the service stack imports values of the state stack."""

Template = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A resource of the prefix that still exists, and the command that deletes it."""

    kind: str
    id: str
    command: str


def refuse_unknown_retained(templates: Iterable[Template]) -> None:
    """Check that the clean-up knows every type that a deletion of the stacks would retain.

    Raises:
        OpsError: it does not; deployed, that resource would stay for good.
    """
    known = {kind.type for kind in KINDS} | IMPLIED
    resources = (each for one in templates for each in one["Resources"].values())
    retained = {r["Type"] for r in resources if r.get("DeletionPolicy", "Delete") != "Delete"}
    if unknown := sorted(retained - known):
        raise OpsError(
            f"the stacks retain {', '.join(unknown)}, which the clean-up does not know: add the "
            "kind to proof/real_aws/cleanup.py"
        )


@dataclass
class Cleanup:
    """The clean-up of one prefix.

    Attributes:
        prefix: the prefix of a run.
        client: makes clients.
        poll_seconds: time between two looks at a stack that is being deleted.
        listed: ids from the lists of the stacks, by CloudFormation type.

    Raises:
        OpsError: the prefix is not one of a run.
    """

    prefix: str
    client: ClientOf
    poll_seconds: float = _POLL_SECONDS
    listed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _faults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_prefix(self.prefix)

    def run(
        self, show: Callable[[str], object], limit_seconds: float = LIMIT_SECONDS
    ) -> list[Leftover]:
        """Delete everything, and return what is left when the time is up; empty if nothing is.

        Args:
            show: told of the progress.
            limit_seconds: the longest time that it takes.
        """
        deadline = time.monotonic() + limit_seconds
        self._read_lists()
        left = self.remaining()
        while left and time.monotonic() < deadline:
            for part in _STACKS:
                self._delete_stack(f"{self.prefix}-{part}", show, deadline)
            self._read_lists()
            self._delete_rest(show)
            left = self.remaining()
            if left:
                show(f"{len(left)} resources left")
                time.sleep(self.poll_seconds)
        return left

    def remaining(self) -> list[Leftover]:
        """Return every resource of the prefix that exists."""
        stacks = [
            Leftover("stack", name, f"aws cloudformation delete-stack --stack-name {name}")
            for part in _STACKS
            if self._status(name := f"{self.prefix}-{part}") is not None
        ]
        rest = (
            Leftover(kind.name, each, kind.command.format(id=each))
            for kind in KINDS
            for each in self._ids(kind)
        )
        return [*stacks, *rest]

    def reason(self, leftover: Leftover) -> str:
        """Return why a resource could not be deleted; empty if AWS gave no reason."""
        return self._faults.get(leftover.id, "")

    def _ids(self, kind: Kind) -> list[str]:
        client = self.client(kind.service)
        if kind.exists is not None:
            return [each for each in sorted(self.listed[kind.type]) if kind.exists(client, each)]
        assert kind.named is not None  # noqa: S101
        named = kind.named(client, self.prefix)
        # The name is the end of a queue's URL and of a topic's ARN.
        separator = {"sqs": "/", "sns": ":"}.get(kind.service, "\0")
        return sorted({n for n in named if owns(self.prefix, n.rpartition(separator)[2])})

    def _delete_rest(self, show: Callable[[str], object]) -> None:
        for kind in KINDS:
            for each in self._ids(kind):
                show(f"{kind.name} {each}")
                self._try(each, partial(kind.delete, self.client(kind.service), each))

    def _try(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
            self._faults.pop(name, None)
        except (ClientError, BotoCoreError) as error:  # tried again in the next round
            self._faults[name] = str(error)

    def _delete_stack(self, name: str, show: Callable[[str], object], deadline: float) -> None:
        asked = False
        while (status := self._status(name)) and time.monotonic() < deadline:
            show(f"stack {name}: {status}")
            if asked and status == "DELETE_FAILED":
                break  # a resource of it is in the way, and is deleted with the rest
            if status != "DELETE_IN_PROGRESS":
                client = self.client("cloudformation")
                self._try(name, partial(client.delete_stack, StackName=name))
                asked = True
            time.sleep(self.poll_seconds)

    def _status(self, name: str) -> str | None:
        """Return the status of a stack; None if it does not exist."""
        try:
            [stack] = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        status = str(stack["StackStatus"])
        return None if status == "DELETE_COMPLETE" else status

    def _read_lists(self) -> None:
        """Add the resources that the stacks ever had: also those that an update or a deletion left.

        The list of a stack's resources has none that an update took out; its events do.
        """
        client, names = self.client("cloudformation"), {f"{self.prefix}-{part}" for part in _STACKS}
        stacks = (
            stack["StackId"]
            for page in client.get_paginator("list_stacks").paginate()
            for stack in page["StackSummaries"]
            if stack["StackName"] in names
        )
        for stack in stacks:
            for page in client.get_paginator("describe_stack_events").paginate(StackName=stack):
                for each in page["StackEvents"]:
                    if each.get("PhysicalResourceId"):
                        self.listed[each["ResourceType"]].add(each["PhysicalResourceId"])
