"""Clean-up: deletes both stacks of a prefix and everything that they retain, and looks again.

A resource belongs to the prefix if its name begins with it, or if it is in the list of a stack
whose name does. Nothing else is ever deleted.
"""

import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.errors import OpsError

ClientOf = Callable[[str], Any]
"""Returns the boto3 client of a service, such as `sqs`."""

STEM = "once-verify-"
LIMIT_SECONDS = 1800.0
_POLL_SECONDS = 5.0
_STACKS = ("service", "state")
"""In this order: the service stack imports values of the state stack."""
_KEY_DAYS = 7
"""The shortest time after which AWS KMS deletes a key; it costs nothing in it."""


def new_prefix() -> str:
    """Return a prefix that no earlier run had."""
    return f"{STEM}{secrets.token_hex(4)}"


def checked_prefix(prefix: str) -> str:
    """Return the prefix.

    Raises:
        OpsError: it is not one of a run. Clean-up of `once` would delete a production service.
    """
    if not re.fullmatch(rf"{STEM}[0-9a-f]{{8}}", prefix):
        raise OpsError(
            f"{prefix!r} is no prefix of a run: give {STEM} and eight digits of 0-9a-f, as the run "
            "printed them and reports/verify.json has them"
        )
    return prefix


def owns(prefix: str, name: str) -> bool:
    """Tell whether a name, URL, ARN or log group is one of the prefix."""
    return re.search(rf"(^|[/:]){prefix}-", name) is not None


class Kind(NamedTuple):
    """One kind of resource.

    Attributes:
        name: what a person calls it.
        type: CloudFormation's type.
        service: boto3's name of the service.
        find: returns the ids of a prefix that exist; given those in the stacks' lists.
        delete: deletes one by its id.
    """

    name: str
    type: str
    service: str
    find: Callable[[Any, str, Collection[str]], Iterable[str]]
    delete: Callable[[Any, str], object]


def _named(operation: str, path: str, **pages: int) -> Callable[..., Iterable[str]]:
    """Find those whose name begins with the prefix.

    Args:
        operation: the name of a list operation with pages.
        path: JMESPath to the ids in a page.
        pages: configuration of the paginator.
    """

    def find(client: Any, prefix: str, _: Collection[str]) -> list[str]:
        found = client.get_paginator(operation).paginate(PaginationConfig=pages).search(path)
        # A page without the list gives None.
        return [each for each in found if each and owns(prefix, each)]

    return find


def _in_lists(is_live: Callable[[Any, str], bool]) -> Callable[..., Iterable[str]]:
    """Find those in the stacks' lists that are live: their names do not have the prefix."""

    def exists(client: Any, each: str) -> bool:
        try:
            return is_live(client, each)
        except ClientError as error:
            if error.response["Error"]["Code"] in (
                "NotFoundException",
                "ResourceNotFoundException",
            ):
                return False
            raise

    return lambda client, _, listed: [
        each for each in sorted(filter(None, listed)) if exists(client, each)
    ]


def _is_live_key(client: Any, key: str) -> bool:
    state = client.describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
    return not state.endswith("Deletion")  # pending, of the key or of its replica


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


KINDS = (
    Kind(
        *("role", "AWS::IAM::Role", "iam"),
        _named("list_roles", "Roles[].RoleName"),
        delete_role,
    ),
    Kind(
        *("function", "AWS::Lambda::Function", "lambda"),
        _named("list_functions", "Functions[].FunctionName"),
        lambda client, name: client.delete_function(FunctionName=name),
    ),
    Kind(
        *("queue", "AWS::SQS::Queue", "sqs"),
        _named("list_queues", "QueueUrls[]", PageSize=1000),  # SQS has no pages otherwise
        lambda client, url: client.delete_queue(QueueUrl=url),
    ),
    Kind(
        *("topic", "AWS::SNS::Topic", "sns"),
        _named("list_topics", "Topics[].TopicArn"),
        lambda client, arn: client.delete_topic(TopicArn=arn),
    ),
    Kind(
        *("table", "AWS::DynamoDB::Table", "dynamodb"),
        _named("list_tables", "TableNames[]"),
        _delete_table,
    ),
    Kind(
        *("bucket", "AWS::S3::Bucket", "s3"),
        _named("list_buckets", "Buckets[].Name"),
        _delete_bucket,
    ),
    Kind(
        *("secret", "AWS::SecretsManager::Secret", "secretsmanager"),
        _in_lists(lambda client, arn: "DeletedDate" not in client.describe_secret(SecretId=arn)),
        lambda client, arn: client.delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True),
    ),
    Kind(
        *("key", "AWS::KMS::Key", "kms"),
        _in_lists(_is_live_key),
        lambda client, key: client.schedule_key_deletion(KeyId=key, PendingWindowInDays=_KEY_DAYS),
    ),
    # Last: a function that was running may have made its log group anew.
    Kind(
        *("log group", "AWS::Logs::LogGroup", "logs"),
        _named("describe_log_groups", "logGroups[].logGroupName"),
        lambda client, name: client.delete_log_group(logGroupName=name),
    ),
)
IMPLIED = {
    *("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::S3::BucketPolicy"),
    "AWS::SNS::Subscription",
}
"""Types that AWS deletes together with their queue, topic or bucket."""


def refuse_unknown_retained(templates: Iterable[Mapping[str, Any]]) -> None:
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
        faults: why a resource could not be deleted, by its id.

    Raises:
        OpsError: the prefix is not one of a run.
    """

    prefix: str
    client: ClientOf
    poll_seconds: float = _POLL_SECONDS
    faults: dict[str, str] = field(default_factory=dict)
    _listed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        checked_prefix(self.prefix)

    def run(
        self, show: Callable[[str], object], limit_seconds: float = LIMIT_SECONDS
    ) -> list[tuple[str, str]]:
        """Delete everything, and return what is left when the time is up; see `remaining`.

        Args:
            show: told of the progress.
            limit_seconds: the longest time that it takes.
        """
        deadline = time.monotonic() + limit_seconds
        self._read_lists()
        while (left := self.remaining()) and time.monotonic() < deadline:
            show(f"{len(left)} resources left")
            for part in _STACKS:
                self._delete_stack(f"{self.prefix}-{part}", show, deadline)
            self._read_lists()
            for kind in KINDS:
                for each in self._ids(kind):
                    show(f"{kind.name} {each}")
                    self._try(each, partial(kind.delete, self.client(kind.service), each))
            if self.remaining():
                time.sleep(self.poll_seconds)
        return left

    def remaining(self) -> list[tuple[str, str]]:
        """Return kind and id of every resource of the prefix that exists."""
        names = [f"{self.prefix}-{part}" for part in _STACKS]
        stacks = [("stack", name) for name in names if self._status(name)]
        return [*stacks, *((kind.name, each) for kind in KINDS for each in self._ids(kind))]

    def _ids(self, kind: Kind) -> Iterable[str]:
        return kind.find(self.client(kind.service), self.prefix, self._listed[kind.type])

    def _try(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
            self.faults.pop(name, None)
        except (ClientError, BotoCoreError) as error:  # tried again in the next round
            self.faults[name] = str(error)

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

    def _status(self, name: str) -> str:
        """Return the status of a stack; empty if it does not exist."""
        try:
            [stack] = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return ""
            raise
        return str(stack["StackStatus"]).replace("DELETE_COMPLETE", "")

    def _read_lists(self) -> None:
        """Add the resources that the stacks ever had: also those that an update or a deletion left.

        The list of a stack's resources has none that an update took out; its events do.
        """
        client, names = self.client("cloudformation"), {f"{self.prefix}-{part}" for part in _STACKS}
        stacks = (
            stack
            for page in client.get_paginator("list_stacks").paginate()
            for stack in page["StackSummaries"]
            if stack["StackName"] in names
        )
        for stack in stacks:
            events = client.get_paginator("describe_stack_events")
            for page in events.paginate(StackName=stack["StackId"]):
                for each in page["StackEvents"]:
                    self._listed[each["ResourceType"]].add(each.get("PhysicalResourceId"))
