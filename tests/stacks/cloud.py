"""The synthesized app, as the tests look at it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from once.cdk.props import ConsumerProps
from stacks.assembly import assemble
from stacks.consumers import CONSUMERS
from stacks.folders import FUNCTIONS, ROOT

Json = dict[str, Any]

CONTEXT: Json = json.loads((ROOT / "cdk.json").read_text())["context"]
WITH_PATHS = {"aws:cdk:enable-path-metadata": True}


def new_app(directory: Path, **context: Any) -> cdk.App:
    return cdk.App(
        outdir=str(directory),
        analytics_reporting=False,
        context={**CONTEXT, **WITH_PATHS, **context},
    )


@dataclass(frozen=True)
class Cloud:
    """Both templates. Resources are found by the path of their construct."""

    directory: Path

    @classmethod
    def synthesize(
        cls,
        directory: Path,
        consumers: Sequence[ConsumerProps] = CONSUMERS,
        functions: Path = FUNCTIONS,
        **context: Any,
    ) -> "Cloud":
        app = new_app(directory, **context)
        assemble(app, consumers, functions)
        app.synth()
        return cls(directory)

    @cached_property
    def state(self) -> Json:
        return self._template("once-state")

    @cached_property
    def service(self) -> Json:
        return self._template("once-service")

    def logical_id(self, path: str) -> str:
        """Return the id of the resource at `path`, such as `once-service/orders/Queue`."""
        template = self._template(path.split("/")[0])
        (found,) = (
            logical_id
            for logical_id, resource in template["Resources"].items()
            if resource.get("Metadata", {}).get("aws:cdk:path") == f"{path}/Resource"
        )
        return str(found)

    def resource(self, path: str) -> Json:
        template = self._template(path.split("/")[0])
        resource: Json = template["Resources"][self.logical_id(path)]
        return resource

    def properties(self, path: str) -> Json:
        properties: Json = self.resource(path)["Properties"]
        return properties

    def every(self, kind: str) -> dict[str, Json]:
        """Return the properties of the service stack's resources of one type, by logical id."""
        return {
            logical_id: resource["Properties"]
            for logical_id, resource in self.service["Resources"].items()
            if resource["Type"] == kind
        }

    def of(self, owner: ConsumerProps | str, part: str) -> Json:
        """Return the properties of a part of a consumer, or of the relay, such as `Function`."""
        return self.properties(f"once-service/{name_of(owner)}/{part}")

    def arn(self, owner: ConsumerProps | str, part: str) -> Json:
        """Return how the template refers to the ARN of a part of a consumer, or of the relay."""
        logical_id = self.logical_id(f"once-service/{name_of(owner)}/{part}")
        return {"Fn::GetAtt": [logical_id, "Arn"]}

    def exported(self, value: Json) -> str:
        """Return what the state stack exports under the name that `value` imports, as text."""
        outputs = self.state["Outputs"].values()
        exports = {flat(o["Export"]["Name"]): flat(o["Value"]) for o in outputs if "Export" in o}
        return exports[value["Fn::ImportValue"]]

    def resolved(self, resource: Json) -> str:
        """Return a resource of a statement as text, imports followed."""
        match resource:
            case {"Fn::ImportValue": _}:
                return self.exported(resource)
            case {"Fn::Join": ["", [{"Fn::ImportValue": _} as imported, rest]]}:
                return self.exported(imported) + str(rest)
        return flat(resource)

    def types(self, template: Json) -> set[str]:
        return {resource["Type"] for resource in template["Resources"].values()}

    def _template(self, stack: str) -> Json:
        template: Json = json.loads((self.directory / f"{stack}.template.json").read_text())
        return template


def name_of(owner: ConsumerProps | str) -> str:
    return owner if isinstance(owner, str) else owner.name


def listed(value: Any) -> list[Any]:
    """Return what a template holds as one value or as a list of them."""
    return value if isinstance(value, list) else [value]


def statements(cloud: Cloud, owner: ConsumerProps | str) -> list[Json]:
    """Return what the role of a function allows."""
    role = cloud.of(owner, "Role")
    return [s for policy in role["Policies"] for s in policy["PolicyDocument"]["Statement"]]


def denies_plain_http(policy: Json) -> bool:
    """Tell whether a queue's, a topic's or a bucket's policy insists on TLS."""
    return any(
        statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["PolicyDocument"]["Statement"]
    )


def flat(value: Any) -> str:
    """Return a template's value as the text it could become, references as placeholders."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return f"<{name}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(flat(part) for part in parts)
    raise AssertionError(f"unknown form in a template: {value!r}")


def environment(cloud: Cloud, owner: ConsumerProps | str) -> dict[str, str]:
    """Return the variables of a function, references as placeholders."""
    variables = cloud.of(owner, "Function")["Environment"]["Variables"]
    return {name: flat(value) for name, value in variables.items()}
