"""Clean-up: deletes both stacks of a prefix and everything that they retain, and looks again.

A resource belongs to the prefix if its name begins with it, or if it is in the list of a stack
whose name does. Nothing else is ever deleted.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.errors import OpsError
from proof.real_aws.account import ClientOf
from proof.real_aws.kinds import IMPLIED, KINDS, Kind
from proof.real_aws.prefix import checked_prefix, owns

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
            "kind to proof/real_aws/kinds.py"
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
        return sorted({each for each in named if owns(self.prefix, _last(kind, each))})

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
                self._try(name, self._ask(name))
                asked = True
            time.sleep(self.poll_seconds)

    def _ask(self, name: str) -> Callable[[], object]:
        return lambda: self.client("cloudformation").delete_stack(StackName=name)

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
        for stack in self._stack_ids():
            pages = self.client("cloudformation").get_paginator("describe_stack_events")
            for page in pages.paginate(StackName=stack):
                for each in page["StackEvents"]:
                    if each.get("PhysicalResourceId"):
                        self.listed[each["ResourceType"]].add(each["PhysicalResourceId"])

    def _stack_ids(self) -> Iterator[str]:
        names = {f"{self.prefix}-{part}" for part in _STACKS}
        for page in self.client("cloudformation").get_paginator("list_stacks").paginate():
            for stack in page["StackSummaries"]:
                if stack["StackName"] in names:
                    yield stack["StackId"]


def _last(kind: Kind, each: str) -> str:
    """Return the name in a URL of a queue or in an ARN of a topic."""
    if kind.service == "sqs":
        return each.rpartition("/")[2]
    return each.rpartition(":")[2] if kind.service == "sns" else each
