"""Updates without an account: templates are deployed into a simulated one, by AWS's own rules.

`Account` holds what CloudFormation would have made, kept and deleted. Each deployment returns the
findings: `rules.csv` says what AWS does, and where it says so. The property changes that replace a
resource, and the properties that name it, come from CloudFormation's resource schemas, which
cfn-lint brings along.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER as SCHEMAS

from once.cdk.topics import NO_EVENT
from stacks.folders import ROOT
from tests.stacks.cloud import Json, listed

RUNBOOK = ROOT / "docs/runbook.md"
DESTROY = "`cdk destroy --all`"
FEWER_CONSUMERS = "a deployment with fewer consumers"
NO_WEBHOOKS = "a deployment without `webhooks=`"
"""Deletions of policies, in the words of the runbook."""

ACCOUNT, REGION, PARTITION = "111122223333", "ap-southeast-2", "aws-us-gov"
"""The longest names of a Region and of a partition."""

Stacks = Sequence[tuple[str, Json]]
"""Names and templates in the order in which they are deployed."""

GLOBAL = ("AWS::CloudWatch::Dashboard", "AWS::IAM::", "AWS::S3::Bucket")
"""Types whose names are one Region's business no more: all Regions of an account share them."""
PARTS = ("Name", "Id", "Arn", "Endpoint", "Protocol")
"""Ends of the names of properties that identify a resource together, as function and alias do."""
GENERATED_LENGTH = {"Queue": 80, "Function": 64, "Role": 64, "Bucket": 63, "Table": 255}
REF_IS_ARN = ("Topic", "ManagedPolicy", "Alias", "Version", "Subscription", "Secret")
ARNS = {
    "Queue": "sqs:{region}:{account}:{name}",
    "Topic": "sns:{region}:{account}:{name}",
    "Table": "dynamodb:{region}:{account}:table/{name}",
    "Function": "lambda:{region}:{account}:function:{name}",
    "Alias": "lambda:{region}:{account}:function:{FunctionName}:{Name}",
    "Version": "lambda:{region}:{account}:function:{FunctionName}:{serial}",
    "LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "Secret": "secretsmanager:{region}:{account}:secret:{name}-AbCdEf",
    "Bucket": "s3:::{name}",
    "Role": "iam::{account}:role/{name}",
    "ManagedPolicy": "iam::{account}:policy/{name}",
    "Key": "kms:{region}:{account}:key/{name}",
    "StateMachine": "states:{region}:{account}:stateMachine:{name}",
}


class Finding(NamedTuple):
    """A rule that a deployment breaks, and the resource or output with which it does."""

    rule: str
    place: str


@dataclass(eq=False)
class Resource:
    """A resource of the account."""

    kind: str
    region: str
    place: str
    declared: Json
    serial: int
    properties: Json = field(default_factory=dict)
    kept: bool = False
    """Whether it outlived its stack."""
    attached: bool = False
    """Whether it is a policy that somebody has attached."""

    @property
    def short(self) -> str:
        return self.kind.rpartition("::")[2]

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The name that is unique in its scope; None if CloudFormation generates a name."""
        names = {f"{self.short}Name", "Name", "Endpoint", *_identifiers(self.kind)}
        given = {n: v for n, v in self.properties.items() if n in _set_at_creation(self.kind)}
        if not any(isinstance(given.get(name), str) for name in names):
            return None
        region = "" if self.kind.startswith(GLOBAL) else self.region
        parts = (json.dumps(given[n]) for n in sorted(given) if n in names or n.endswith(PARTS))
        return (self.kind, region, *parts)

    @property
    def name(self) -> str:
        for name in (f"{self.short}Name", "Name"):
            if isinstance(self.properties.get(name), str):
                return str(self.properties[name])
        stack, _, logical_id = self.place.partition("/")
        length = GENERATED_LENGTH.get(self.short, 128) - 13
        made = f"{stack}-{logical_id}"[:length] + f"-{self.serial:0>12}"
        return made.lower() if self.short == "Bucket" else made

    @property
    def arn(self) -> str:
        own = {"region": self.region, "account": ACCOUNT, "name": self.name, "serial": self.serial}
        texts = {key: _last(value) for key, value in self.properties.items()}
        pattern = ARNS.get(self.short, "{region}:{account}:{name}")
        return f"arn:{PARTITION}:" + pattern.format_map({**texts, **own})

    def value(self, attribute: str = "") -> str:
        """Return what `Ref` gives, or an attribute."""
        match self.short, attribute:
            case "Queue", "" | "QueueUrl":
                return f"https://sqs.{self.region}.amazonaws.com/{ACCOUNT}/{self.name}"
            case (_, "Arn" | "Id" | "TopicArn" | "FunctionArn" | "AliasArn" | "PolicyArn"):
                return self.arn
            case _, "StreamArn":
                return f"{self.arn}/stream/2026-01-01T00:00:00.{self.serial:0>3}"
            case short, "" if short in REF_IS_ARN:
                return self.arn
            case _, "" | "QueueName" | "TopicName":
                return self.name
        return f"{self.name}.{attribute}"

    def policy(self, name: str) -> str:
        return str(self.declared.get(name, "Delete"))


@dataclass
class Account:
    """An account: its resources, and the templates of its stacks."""

    resources: list[Resource] = field(default_factory=list)
    stacks: dict[tuple[str, str], Json] = field(default_factory=dict)
    _made: int = 0
    _told: list[Finding] = field(default_factory=list)

    def deploy(self, stacks: Stacks, region: str = REGION) -> list[Finding]:
        """Deploy stacks in their order, and return what fails or goes wrong."""
        found = [f for name, template in stacks for f in self._stack(name, template, region)]
        found += [
            Finding("value-not-read", f"{name}/{each}")
            for name, _ in stacks
            for each in self._changes_unread(name, region)
        ]
        for each in self._unmanaged_policies():  # people have attached them to their roles
            each.attached = True
        return list(dict.fromkeys([*found, *self._deliveries()]))

    def fail_to_create(self, name: str, template: Json, region: str = REGION) -> list[Finding]:
        """Create a stack, and roll the creation back."""
        found = self._stack(name, template, region)
        return [*found, *self._delete_stack(name, region, rolled_back=True)]

    def destroy(self, stacks: Stacks, region: str = REGION) -> list[Finding]:
        """Delete stacks, the last one first."""
        return [f for name, _ in reversed(stacks) for f in self._delete_stack(name, region)]

    def forget(self, kinds: Collection[str]) -> None:
        """Delete the resources of some types that outlived their stacks, as a person does."""
        self.resources = [r for r in self.resources if not (r.kept and r.short in kinds)]
        topics = {each.arn for each in self.resources if each.short == "Topic"}
        self.resources = [  # SNS deletes a topic with its subscriptions
            each
            for each in self.resources
            if each.short != "Subscription" or each.properties["TopicArn"] in topics
        ]

    def detach(self, deletion: str) -> None:
        """Detach the policies that the runbook names for a deletion, as a person does."""
        numbered = "|".join(detached_by_hand(deletion))
        for each in self.resources:
            if re.search(rf"/Operators({numbered})[0-9A-F]{{8}}$", each.place):
                each.attached = False

    def of(self, stack: str, region: str = REGION) -> dict[str, Resource]:
        """Return the resources of a stack by their logical ids."""
        return {
            each.place.partition("/")[2]: each
            for each in self.resources
            if not each.kept and (each.place.partition("/")[0], each.region) == (stack, region)
        }

    def _stack(self, name: str, template: Json, region: str) -> list[Finding]:
        before = self.stacks.get((region, name))
        if before == template:
            return []
        old = self.of(name, region)
        found = [
            Finding("value-missing", f"{name}/{each}")
            for each in sorted(_readings(template))
            if self._reading(each, region) is None
        ]
        new = self._resolved(name, template, region, old)
        for each in new.values():  # CloudFormation deletes at the end
            if each not in old.values():
                found += self._name_faults(each)
        for logical_id, each in old.items():
            after = new.get(logical_id)
            if after is None:
                found += self._remove(each, each.policy("DeletionPolicy"))
            elif after is not each:
                found += self._replace(each, after)
        self.resources += [each for each in new.values() if each not in self.resources]
        self.stacks[region, name] = template
        limits = [each for each in self._limits(name, region) if each not in self._told]
        self._told += limits
        return [*found, *limits]

    def _resolved(
        self, name: str, template: Json, region: str, old: Mapping[str, Resource]
    ) -> dict[str, Resource]:
        """Return the resources of a stack after its update; one that is replaced is another one."""
        new: dict[str, Resource] = {}
        for logical_id, declared in template["Resources"].items():
            each = old.get(logical_id)
            same = each is not None and each.kind == declared["Type"]
            new[logical_id] = (
                replace(each, declared=declared, attached=False)
                if each is not None and same
                else self._new(f"{name}/{logical_id}", declared, region)
            )
        settled = False
        while not settled:
            settled = True
            while self._settle(new, region):
                pass
            for logical_id, each in list(new.items()):
                before = old.get(logical_id)
                kept = before is not None and before.serial == each.serial
                if kept and before is not None and _replaces(before, each):
                    new[logical_id] = self._new(each.place, each.declared, region)
                    settled = False
        for logical_id, each in new.items():
            before = old.get(logical_id)
            if before is not None and before.serial == each.serial:
                before.declared, before.properties = each.declared, each.properties
                new[logical_id] = before
        return new

    def _settle(self, new: Mapping[str, Resource], region: str) -> bool:
        """Follow the references of every resource once; tell whether this changed a property."""
        changed = False
        for each in new.values():
            given = self._value(each.declared.get("Properties", {}), new, region)
            changed |= given != each.properties
            each.properties = given
        return changed

    def _new(self, place: str, declared: Json, region: str) -> Resource:
        self._made += 1
        return Resource(declared["Type"], region, place, declared, self._made)

    def _remove(self, each: Resource, policy: str) -> Iterator[Finding]:
        if policy.startswith("Retain"):
            each.kept = True
            return
        if each.properties.get("DeletionProtectionEnabled"):
            each.kept = True
            yield Finding("protected", each.place)
            return
        if each.attached:
            yield Finding("attached", each.place)
        self.resources.remove(each)

    def _replace(self, before: Resource, after: Resource) -> Iterator[Finding]:
        policy = before.policy("UpdateReplacePolicy")
        if policy == "Retain" or before.properties.get("DeletionProtectionEnabled"):
            yield Finding("kept-replaced", after.place)
        if before.identity is not None and before.identity == after.identity:
            yield Finding("named-replacement", after.place)
        yield from self._remove(before, policy)

    def _name_faults(self, each: Resource) -> Iterator[Finding]:
        others = [
            other
            for other in self.resources
            if each.identity is not None and other.identity == each.identity
            if other.kept or (other.place, other.region) != (each.place, each.region)
        ]
        if each.short != "Subscription":
            yield from (Finding("name-taken", each.place) for _ in others[:1])
        for other in others if each.short == "Subscription" else ():
            if other.properties != each.properties:
                yield Finding("subscribed-otherwise", each.place)
            else:  # SNS answers with the subscription that exists
                self.resources.remove(other)

    def _delete_stack(self, name: str, region: str, *, rolled_back: bool = False) -> list[Finding]:
        found: list[Finding] = []
        for each in self.of(name, region).values():
            policy = each.policy("DeletionPolicy")
            undone = rolled_back and policy == "RetainExceptOnCreate"
            found += self._remove(each, "Delete" if undone else policy)
        self.stacks.pop((region, name), None)
        return found

    def _reading(self, reading: str, region: str) -> str | None:
        """Return an output that a template reads from another stack; None if it is missing."""
        stack, _, output = reading.partition("/")
        template = self.stacks.get((region, stack), {})
        found = template.get("Outputs", {}).get(output)
        if found is None:
            return None
        return str(self._value(found["Value"], self.of(stack, region), region))

    def _changes_unread(self, name: str, region: str) -> list[str]:
        return [
            logical_id
            for logical_id, each in self.of(name, region).items()
            if each.properties
            != self._value(each.declared.get("Properties", {}), self.of(name, region), region)
        ]

    def _value(self, value: Any, new: Mapping[str, Resource], region: str) -> Any:
        """Return a template's value with its references followed."""
        match value:
            case {"Fn::GetStackOutput": _}:
                [reading] = _readings(value)
                return self._reading(reading, region) or f"<{reading}>"
            case dict() if len(value) == 1 and {*value} <= _INTRINSICS.keys():
                [(function, argument)] = value.items()
                known = {**_pseudo(region), **new}
                return _INTRINSICS[function](
                    argument, lambda each: self._value(each, new, region), known
                )
            case dict():
                return {key: self._value(part, new, region) for key, part in value.items()}
            case list():
                return [self._value(part, new, region) for part in value]
        return value

    def _unmanaged_policies(self) -> list[Resource]:
        roles = [each for each in self.resources if each.short == "Role"]
        given = {arn for role in roles for arn in role.properties.get("ManagedPolicyArns", ())}
        return [
            each
            for each in self.resources
            if each.short == "ManagedPolicy"
            and each.arn not in given
            and not any(each.properties.get(holder) for holder in ("Roles", "Groups", "Users"))
        ]

    def _limits(self, name: str, region: str) -> Iterator[Finding]:
        for each in self.of(name, region).values():
            if each.short == "ManagedPolicy" and size(each.properties["PolicyDocument"]) > 6144:
                yield Finding("policy-size", each.place)
            inline = each.properties.get("Policies", ()) if each.short == "Role" else ()
            if sum(size(policy["PolicyDocument"]) for policy in inline) > 10_240:
                yield Finding("inline-size", each.place)

    def _deliveries(self) -> Iterator[Finding]:
        """Yield the subscriptions that outlived their stack, and those that a queue refuses."""
        queues = {
            each.arn: each for each in self.resources if each.short == "Queue" and not each.kept
        }
        for each in (r for r in self.resources if r.short == "Subscription"):
            given = each.properties
            queue = queues.get(given["Endpoint"])
            if queue is None or NO_EVENT in json.dumps(given.get("FilterPolicy")):
                continue
            if each.kept:
                yield Finding("still-delivers", each.place)
            elif given["TopicArn"] not in self._senders(queue):
                yield Finding("delivery-denied", each.place)

    def _senders(self, queue: Resource) -> set[str]:
        return {
            arn
            for policy in self.resources
            if policy.short == "QueuePolicy" and queue.value() in policy.properties["Queues"]
            for statement in policy.properties["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Allow"
            for keys in statement.get("Condition", {}).values()
            for arn in listed(keys.get("aws:SourceArn", []))
        }


def _pseudo(region: str) -> dict[str, Any]:
    return {
        "AWS::AccountId": ACCOUNT,
        "AWS::Region": region,
        "AWS::Partition": PARTITION,
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::NoValue": None,
    }


def _referred(name: str, _: Any, known: Mapping[str, Any]) -> Any:
    found = known.get(name, name)
    return found.value() if isinstance(found, Resource) else found


def _attribute(both: Any, _: Any, known: Mapping[str, Any]) -> str:
    name, attribute = both if isinstance(both, list) else str(both).split(".", 1)
    return str(known[name].value(attribute))


def _substituted(text: str, _: Any, known: Mapping[str, Any]) -> str:
    return re.sub(r"\$\{([\w:]+)\}", lambda found: str(_referred(found[1], _, known)), text)


_INTRINSICS: dict[str, Callable[..., Any]] = {
    "Ref": _referred,
    "Fn::GetAtt": _attribute,
    "Fn::Join": lambda given, follow, _: str(given[0]).join(map(str, follow(given[1]))),
    "Fn::Split": lambda given, follow, _: str(follow(given[1])).split(given[0]),
    "Fn::Select": lambda given, follow, _: follow(given[1])[int(given[0])],
    "Fn::Sub": _substituted,
}


def detached_by_hand(deletion: str) -> list[str]:
    """Return patterns for the names of the policies to detach before something deletes them."""
    _, _, section = RUNBOOK.read_text().partition("### Detach the operators' policies")
    section, _, _ = section.partition("\n## ")
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return [
        re.sub(r"\d+$", r"\\d+", name) if "higher numbers" in policies else name
        for policies, deletions in rows
        if deletion in map(str.strip, deletions.split(";"))
        for name in re.findall(r"`(\w+)`", policies)
    ]


def size(document: Any) -> int:
    """Return the characters of a policy that IAM counts: all but white space."""
    return len("".join(json.dumps(document, separators=(",", ":")).split()))


@cache
def _schema(kind: str) -> Json:
    found: Json = SCHEMAS.get_resource_schema("us-east-1", kind).schema
    return found


@cache
def _set_at_creation(kind: str) -> tuple[str, ...]:
    """Return the top-level properties of a type whose change replaces a resource."""
    found = _schema(kind)
    paths = (
        *found.get("createOnlyProperties", ()),
        *found.get("conditionalCreateOnlyProperties", ()),
    )
    return tuple(path.split("/")[2] for path in paths if path.count("/") == 2)


@cache
def _identifiers(kind: str) -> tuple[str, ...]:
    paths = _schema(kind).get("primaryIdentifier", ())
    return tuple(path.split("/")[2] for path in paths) if len(paths) == 1 else ()


def _replaces(before: Resource, after: Resource) -> bool:
    names = _set_at_creation(after.kind)
    return any(before.properties.get(name) != after.properties.get(name) for name in names)


def _readings(value: Any) -> set[str]:
    """Return the outputs of other stacks that a template reads, as `stack/output`."""
    match value:
        case {"Fn::GetStackOutput": {"StackName": stack, "OutputName": output}}:
            return {f"{stack}/{output}"}
        case dict():
            return {each for part in value.values() for each in _readings(part)}
        case list():
            return {each for part in value for each in _readings(part)}
    return set()


def _last(value: Any) -> Any:
    return value.rpartition(":")[2] if isinstance(value, str) else value
