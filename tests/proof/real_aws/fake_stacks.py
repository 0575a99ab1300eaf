"""CloudFormation in memory, since moto's needs a package that is not installed; the rest is moto's.

A deleted stack keeps its list of resources, as on AWS.
"""

from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from once.ops.aws.clients import client


def client_error(code: str, operation: str, message: str = "") -> ClientError:
    error: Any = {"Error": {"Code": code, "Message": message}}
    return ClientError(error, operation)


@dataclass
class FakeStacks:
    """CloudFormation's client, with the status and the resources of each stack."""

    status: dict[str, str] = field(default_factory=lambda: {"CDKToolkit": "CREATE_COMPLETE"})
    resources: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def __call__(self, service: str) -> Any:
        """Return the client of a service."""
        return self if service == "cloudformation" else client(service)

    def create(self, name: str, *resources: tuple[str, str]) -> None:
        self.status[name] = "CREATE_COMPLETE"
        self.resources[name] = list(resources)

    def existing(self) -> list[str]:
        return [name for name, status in self.status.items() if status != "DELETE_COMPLETE"]

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803
        if StackName not in self.existing():
            message = f"Stack with id {StackName} does not exist"
            raise client_error("ValidationError", "DescribeStacks", message)
        return {"Stacks": [{"StackName": StackName, "StackStatus": self.status[StackName]}]}

    def delete_stack(self, StackName: str) -> None:  # noqa: N803
        self.status[StackName] = "DELETE_COMPLETE"

    def get_paginator(self, operation: str) -> Any:
        return _Pages(self, operation)


@dataclass
class _Pages:
    stacks: FakeStacks
    operation: str

    def paginate(self, StackName: str = "") -> list[Any]:  # noqa: N803
        if self.operation == "list_stacks":
            names = self.stacks.status
            return [{"StackSummaries": [{"StackName": n, "StackId": f"arn:{n}"} for n in names]}]
        found = self.stacks.resources.get(StackName.removeprefix("arn:"), [])
        listed = [{"ResourceType": kind, "PhysicalResourceId": each} for kind, each in found]
        return [{"StackEvents": listed}]
