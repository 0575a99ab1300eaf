"""Findings of cdk-nag that are accepted, each with its reason."""

import json
from typing import Any, cast

from aws_cdk import (
    Acknowledgment,
    CfnOutput,
    Reference,
    ReferenceStrength,
    Stack,
    Token,
    Tokenization,
    Validations,
)
from constructs import Construct

_STRENGTH = "@aws-cdk/core:defaultCrossStackReferences"


def acknowledge_finding(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding of `rule` at this construct; the template's report states the reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_pattern(construct: Construct, pattern: str, reason: str) -> None:
    """Accept that a policy has a pattern of ARNs as a resource."""
    name = _flat(Stack.of(construct).resolve(pattern))
    acknowledge_finding(construct, f"AwsSolutions-IAM5[Resource::{name}]", reason)


def as_referenced(scope: Construct, value: str) -> str:
    """Return an ARN as the template of `scope` refers to it, if another stack has the resource.

    CDK makes the same output and the same reference later; findings must be named before that.
    """
    here = Stack.of(scope)
    token = Tokenization.reverse_string(value).first_token
    owner = Stack.of(token.target) if isinstance(token, Reference) else here
    if owner.node.path == here.node.path:
        return value
    if scope.node.try_get_context(_STRENGTH) in {None, ReferenceStrength.STRONG.value}:
        return owner.export_value(value)
    # The output that CDK makes for a weak reference, under the same path.
    found = owner.node.try_find_child("Publish")
    publish = Construct(owner, "Publish") if found is None else cast(Construct, found)
    name = f"Output{json.dumps(owner.resolve(value), separators=(',', ':'))}"
    made = publish.node.try_find_child(name)
    output = made if isinstance(made, CfnOutput) else CfnOutput(publish, name, value=value)
    place = {
        "StackName": owner.stack_name,
        "Region": owner.region,
        "OutputName": owner.resolve(output.logical_id),
    }
    return Token.as_string({"Fn::GetStackOutput": place})


def _flat(value: Any) -> str:
    """Return how findings name an ARN: references in angle brackets, other functions as JSON."""
    match value:
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_flat, parts))
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return _flat(name)
        case {"Ref": name}:
            return f"<{name}>"
        case str():
            return value
    return json.dumps(value, separators=(",", ":"))
