"""The templates of the synthesized app, and look-ups in them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from once.cdk import _lambda_function as function_module
from once.cdk import assemble
from once.cdk.props import ConsumerProps
from stacks.folders import ROOT
from stacks.registry import REGISTRY

Json = dict[str, Any]
Name = ConsumerProps | str

CONTEXT: Json = json.loads((ROOT / "cdk.json").read_text())["context"]
STATE = "once-state"
SHOP = ("orders", "inventory", "payments", "notifications")
"""The example's consumers. The registry may have more, where a team starts from this project."""

POLICY = "AWS::IAM::Policy"
WITH_PATHS = {"aws:cdk:enable-path-metadata": True}


def new_app(directory: Path, **context: Any) -> cdk.App:
    return cdk.App(
        outdir=str(directory),
        analytics_reporting=False,
        context={**CONTEXT, **WITH_PATHS, **context},
    )


@contextmanager
def without_packages() -> Iterator[None]:
    """Give each function a package of one file: to build, hash and copy real ones takes long."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:

        def package(name: str, *_: object) -> Path:
            made = Path(folder) / name
            made.mkdir(exist_ok=True)
            (made / "handler.py").write_text(name)
            return made

        patch.setattr(function_module, "package", package)
        yield


@dataclass(frozen=True)
class Cloud:
    """Both templates.

    A resource is found by the names on its construct's path: `orders` and `Queue`, or `Ingress`. A
    consumer stands for its name. The first name of a resource in the state stack is `STATE`; a
    business table is found by its own.
    """

    directory: Path
    local: bool = False

    @classmethod
    def synthesize(cls, directory: Path, *, local: bool = False, **context: Any) -> "Cloud":
        with without_packages():
            app = new_app(directory, local=local, **context)
            assemble(app, REGISTRY)
            app.synth()
        return cls(directory, local)

    @cached_property
    def state(self) -> Json:
        return self._template("once-state")

    @cached_property
    def service(self) -> Json:
        return self._template("once-service")

    @cached_property
    def _found(self) -> dict[str, tuple[str, Json]]:
        """Logical id and resource by path."""
        return {
            resource["Metadata"]["aws:cdk:path"]: (logical_id, resource)
            for template in (self.state, self.service)
            for logical_id, resource in template["Resources"].items()
        }

    def _find(self, names: Sequence[Name]) -> tuple[str, Json]:
        path = "/".join([*map(name_of, names), "Resource"])
        if names[0] != STATE:
            return self._found[f"once-service/{path}"]
        return self._found.get(path) or self._found[path.replace("/Resource", "-table/Resource")]

    def id_of(self, *names: Name) -> str:
        """Return the logical id of a resource."""
        return self._find(names)[0]

    def resource(self, *names: Name) -> Json:
        return self._find(names)[1]

    def of(self, *names: Name) -> Json:
        """Return the properties of a resource."""
        properties: Json = self.resource(*names)["Properties"]
        return properties

    def ref(self, *names: Name) -> Json:
        return {"Ref": self.id_of(*names)}

    def arn(self, *names: Name) -> Json:
        return {"Fn::GetAtt": [self.id_of(*names), "Arn"]}

    def text(self, *names: Name, attribute: str = "") -> str:
        """Return a reference to a resource or its attribute, as `flat` renders it."""
        return placeholder(self.id_of(*names), attribute)

    def every(self, kind: str) -> dict[str, Json]:
        """Return the properties of the service stack's resources of one type, by logical id."""
        return {
            logical_id: resource["Properties"]
            for logical_id, resource in self.service["Resources"].items()
            if resource["Type"] == kind
        }

    def subscriptions(self, *queue: Name) -> dict[str, Json]:
        """Return the subscriptions of a queue by the logical id of their topic."""
        every = self.every("AWS::SNS::Subscription").values()
        own = [one for one in every if one["Endpoint"] == self.arn(*queue)]
        return {one["TopicArn"]["Ref"]: one for one in own}

    def exported(self, value: Json) -> str:
        """Return the value of the state stack's output that a reference reads, as text."""
        return self.output(value["Fn::GetStackOutput"]["OutputName"])

    def output(self, name: str) -> str:
        """Return the value of an output of the state stack, as text."""
        return flat(self.state["Outputs"][name]["Value"])

    def resolved(self, resource: Json) -> str:
        """Return a resource of a statement as text, references to the state stack followed."""
        match resource:
            case {"Fn::GetStackOutput": _}:
                return self.exported(resource)
            case {"Fn::Join": ["", [{"Fn::GetStackOutput": _} as imported, rest]]}:
                return self.exported(imported) + str(rest)
        return flat(resource)

    def _template(self, stack: str) -> Json:
        template: Json = json.loads((self.directory / f"{stack}.template.json").read_text())
        return template


def resources_of(stack: cdk.Stack, kind: str) -> list[Json]:
    """Return the properties of a stack's resources of one type."""
    found = Template.from_stack(stack).find_resources(kind)
    return [resource.get("Properties", {}) for resource in found.values()]


def types(template: Json) -> set[str]:
    return {resource["Type"] for resource in template["Resources"].values()}


def name_of(name: Name) -> str:
    return name if isinstance(name, str) else name.name


def listed(value: Any) -> list[Any]:
    """Return one value, or a list of values, as a list."""
    return value if isinstance(value, list) else [value]


def statements(cloud: Cloud, owner: Name) -> list[Json]:
    """Return the statements of a function's role."""
    role = cloud.of(owner, "Role")
    return [s for policy in role["Policies"] for s in policy["PolicyDocument"]["Statement"]]


def further_policies(template: Json, role: str) -> list[Json]:
    """Return the documents of the policies that are added to a role, by its logical id."""
    policies = (r["Properties"] for r in template["Resources"].values() if r["Type"] == POLICY)
    return [each["PolicyDocument"] for each in policies if {"Ref": role} in each["Roles"]]


def role_statements(templates: Mapping[str, Json], function: str) -> list[tuple[str, Json]]:
    """Return each statement of a function's role with its stack, also those of further policies."""
    path, found = f"/{function}/Role/Resource", list[tuple[str, Json]]()
    for stack, template in templates.items():
        for logical_id, role in template["Resources"].items():
            if role.get("Metadata", {}).get("aws:cdk:path", "").endswith(path):
                own = [each["PolicyDocument"] for each in role["Properties"]["Policies"]]
                every = [*own, *further_policies(template, logical_id)]
                found += [(stack, each) for document in every for each in document["Statement"]]
    return found


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids that a part of a template refers to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            yield name
        case dict():
            for each in value.values():
                yield from references(each)
        case list():
            for each in value:
                yield from references(each)


def placeholder(name: str, attribute: str = "") -> str:
    return f"<{name}.{attribute}>" if attribute else f"<{name}>"


def flat(value: Any) -> str:
    """Return a template's value as text, with placeholders for references."""
    match value:
        case str():
            return value
        case {"Ref": name} | {"Fn::GetStackOutput": {"OutputName": name}}:
            return placeholder(name)
        case {"Fn::GetAtt": [name, attribute]}:
            return placeholder(name, attribute)
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(flat(part) for part in parts)
    raise AssertionError(f"unknown form in a template: {value!r}")


def environment(cloud: Cloud, owner: Name) -> dict[str, str]:
    """Return the variables of a function, with placeholders for references."""
    variables = cloud.of(owner, "Function")["Environment"]["Variables"]
    return {name: flat(value) for name, value in variables.items()}
