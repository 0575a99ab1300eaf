"""Check of a whole tree: no stack has more resources or outputs than CloudFormation takes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from aws_cdk import CfnOutput, CfnResource, Stack
from constructs import IConstruct

from once.cdk.checks.unmanaged_mappings import CONSTRUCT_METADATA
from once.schema import UNROUTED

RESOURCES, OUTPUTS = 500, 200
"""CloudFormation's quotas for one stack, which cannot be raised."""


@dataclass(slots=True)
class _Contents:
    """The resources of a stack, and the number of its outputs."""

    resources: list[IConstruct] = field(default_factory=list)
    outputs: int = 0


def stack_size_faults(tree: Iterable[IConstruct]) -> Iterator[str]:
    """Yield a fault for each stack that exceeds a quota of CloudFormation, with its remedy."""
    for name, stack in _stacks(tree).items():
        for count, quota, what in (
            (len(stack.resources), RESOURCES, "resources"),
            (stack.outputs, OUTPUTS, "outputs"),
        ):
            if count > quota:
                fault = f"{count} {what}, and CloudFormation takes {quota}"
                yield f"{name}: {fault}; {_remedy(stack)}"


def _stacks(tree: Iterable[IConstruct]) -> dict[str, _Contents]:
    found: dict[str, _Contents] = defaultdict(_Contents)
    for construct in tree:
        if isinstance(construct, CfnResource):
            found[Stack.of(construct).stack_name].resources.append(construct)
        elif isinstance(construct, CfnOutput):
            found[Stack.of(construct).stack_name].outputs += 1
    return found


def _remedy(stack: _Contents) -> str:
    owners = Counter(_consumer_of(resource) for resource in stack.resources)
    others = owners.pop(None, 0)
    if not owners:
        return "move some of them to another stack"
    fit = (RESOURCES - others) // max(owners.values())
    return (
        f"of its {len(owners)} consumers about {fit} fit: move the others, with the publishers of "
        "the events that they take, to a deployment of their own (another registry, and another "
        "name with -c service=…)"
    )


def _consumer_of(construct: IConstruct) -> str | None:
    """Return the path of the consumer that a construct is part of."""
    for scope in reversed(construct.node.scopes):
        for entry in scope.node.metadata:
            if entry.type == CONSTRUCT_METADATA and entry.data != UNROUTED:
                return scope.node.path
    return None
