"""The subject of a check, read from a template: SAM, CloudFormation, synthesized CDK or Terraform.

In: the file, and a function's name if the template has several that read a queue. Out: a `Subject`
with the function's package and settings, its queue, and everything else that exists.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import ClientError

from redelivery.subject import Index, Subject, SubjectError, Table
from redelivery.world.resources import ACCOUNT, DLQ, REGION, SOURCE

Json = Mapping[str, Any]

_PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "stack",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/stack/id",
    "AWS::NoValue": None,
}
_FUNCTIONS = ("AWS::Serverless::Function", "AWS::Lambda::Function")
_TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable", "AWS::Serverless::SimpleTable")
_MACHINES = ("AWS::StepFunctions::StateMachine", "AWS::Serverless::StateMachine")
_NAMES = {
    "AWS::SQS::Queue": "QueueName",
    **dict.fromkeys(_TABLES, "TableName"),
    "AWS::SNS::Topic": "TopicName",
    "AWS::S3::Bucket": "BucketName",
    **dict.fromkeys(_FUNCTIONS, "FunctionName"),
    "AWS::Events::EventBus": "Name",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
    "AWS::Serverless::StateMachine": "Name",
    "AWS::SSM::Parameter": "Name",
    "AWS::SecretsManager::Secret": "Name",
}
"""The property that names a resource, by its type."""

_ARNS = {
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:",
    **dict.fromkeys(_TABLES, f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/"),
    "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:",
    "AWS::S3::Bucket": "arn:aws:s3:::",
    **dict.fromkeys(_FUNCTIONS, f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:"),
    "AWS::Events::EventBus": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/",
    **dict.fromkeys(_MACHINES, f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:"),
}
_REFERENCE = re.compile(r"\$\{([^!${}]+)\}")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads the short forms of CloudFormation's functions: `!Ref`, `!Sub`, `!GetAtt`."""


def _short_form(loader: _Loader, name: str, node: yaml.Node) -> Json:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if name == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {name if name in {"Ref", "Condition"} else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _short_form)


def subject_of(file: Path, function: str = "", root: Path | None = None) -> Subject:
    """Return the subject that a template describes.

    Args:
        file: the template.
        function: logical id, name or handler of the function; needed if several read a queue.
        root: the folder of the function's package, if the template does not name it.

    Raises:
        SubjectError: it cannot be read, or something has to be named.
    """
    stack, *others = _stacks(file)
    found = [
        (owner, name, mapping)
        for owner in (stack, *others)
        for name, mapping in owner.consumers()
        if function in {"", name, owner.name(name), owner.property(name, "Handler")}
    ]
    if len({name for _, name, _ in found}) != 1:  # its first mapping is the one that it is for
        every = [name for owner in (stack, *others) for name, _ in owner.consumers()]
        known = dict.fromkeys(every)
        what = "no function reads a queue" if not known else f"name one of {', '.join(known)}"
        raise SubjectError(f"{file}: {what}")
    owner, name, mapping = found[0]
    return owner.subject(name, mapping, [stack, *others], root)


def _stacks(file: Path) -> "list[_Stack]":
    """Return a template, and those that were synthesized with it."""
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SubjectError(f"cannot read the template {file}: {error}") from error
    if isinstance(document, dict) and ("values" in document or "planned_values" in document):
        document = _from_terraform(document)
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise SubjectError(
            f"{file} is no template: it has no Resources, and is not of `terraform show -json`"
        )
    files = sorted(file.parent.glob("*.template.json")) if _is_synthesized(file) else []
    others = [_Stack(json.loads(other.read_text()), other) for other in files if other != file]
    stacks = [_Stack(document, file), *others]
    exports: dict[str, Callable[[], Any]] = {
        str(stack.value(output["Export"]["Name"])): partial(stack.value, output["Value"])
        for stack in stacks
        for output in stack.document.get("Outputs", {}).values()
        if "Export" in output
    }
    exports |= {
        f"{stack.file.name.partition('.')[0]}.{name}": partial(stack.value, output["Value"])
        for stack in stacks
        for name, output in stack.document.get("Outputs", {}).items()
    }
    for stack in stacks:
        stack.exports = exports
    return stacks


def _is_synthesized(file: Path) -> bool:
    return file.with_name("manifest.json").exists()


class _Stack:
    """One template, and the values of its expressions in the simulated AWS."""

    def __init__(self, document: Json, file: Path) -> None:
        self.document, self.file = document, file
        self.exports: Mapping[str, Callable[[], Any]] = {}
        self._resources: Json = document["Resources"]
        self._resources = {
            name: resource
            for name, resource in self._resources.items()
            if self._holds(resource.get("Condition", ""))
        }
        self.source = self.dead_letters = ""

    def of_type(self, *types: str) -> Iterator[str]:
        """Yield the logical ids of resources."""
        return (name for name, each in self._resources.items() if each.get("Type") in types)

    def property(self, name: str, key: str, default: Any = None) -> Any:
        """Return a property of a resource; of a function, also from the template's globals."""
        resource = self._resources[name]
        given = resource.get("Properties", {}).get(key)
        shared = self.document.get("Globals", {}).get("Function", {}).get(key)
        if resource.get("Type") == _FUNCTIONS[0] and shared is not None:
            given = _merged(shared, given)
        value = self.value(given)
        return default if value is None else value

    def name(self, name: str) -> str:
        """Return the name of a resource in the simulated AWS."""
        if name in {self.source, self.dead_letters}:
            return SOURCE if name == self.source else DLQ
        key = _NAMES.get(self._resources[name].get("Type", ""), "")
        given = str(self.property(name, key, "") if key else "") or re.sub(r"[^\w.-]", "-", name)
        if self._resources[name]["Type"] == "AWS::S3::Bucket":
            return given.lower().replace("_", "-")[:63].ljust(3, "x")
        fifo = self._resources[name]["Type"] in {"AWS::SQS::Queue", "AWS::SNS::Topic"}
        is_fifo = fifo and str(self._is_fifo(name)).lower() == "true"
        return f"{given}.fifo" if is_fifo and not given.endswith(".fifo") else given

    def _is_fifo(self, name: str) -> bool:
        keys = ("FifoQueue", "FifoTopic")
        given = [self._resources[name].get("Properties", {}).get(key) for key in keys]
        return any(str(self.value(value)).lower() == "true" for value in given)

    def value(self, given: Any) -> Any:
        """Return the value of an expression; what is unknown keeps a telling name."""
        if isinstance(given, list):
            return [self.value(entry) for entry in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            [(function, argument)] = given.items()
            evaluate = getattr(self, f"_{function.replace('::', '_').lower()}", None)
            if function in {"Ref", "Condition"} or function.startswith("Fn::"):
                return evaluate(argument) if evaluate else function
        return {key: self.value(entry) for key, entry in given.items()}

    def _ref(self, name: str) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in self._resources:
            kind = self._resources[name].get("Type")
            if kind == "AWS::SQS::Queue":
                return self._queue(name)
            arn = kind in {"AWS::SNS::Topic", "AWS::SecretsManager::Secret", *_MACHINES}
            return self._fn_getatt([name, "Arn"]) if arn else self.name(name)
        parameter = self.document.get("Parameters", {}).get(name, {})
        default = parameter.get("Default", next(iter(parameter.get("AllowedValues", ())), name))
        return default.split(",") if "List" in str(parameter.get("Type")) else default

    def _queue(self, name: str) -> str:
        if name in {self.source, self.dead_letters}:
            return "{source}" if name == self.source else "{dlq}"
        return f"{{queue:{self.name(name)}}}"

    def _fn_getatt(self, argument: Any) -> Any:
        name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
        if name not in self._resources:
            return f"{name}.{attribute}"
        kind = self._resources[name].get("Type", "")
        if attribute in {"Arn", "TopicArn", "Id"}:
            return f"{_ARNS.get(kind, f'arn:aws:other:{REGION}:{ACCOUNT}:')}{self.name(name)}"
        if attribute == "QueueUrl":
            return self._queue(name)
        return self.name(name) if attribute.endswith("Name") else f"{name}.{attribute}"

    def _fn_sub(self, argument: Any) -> str:
        text, more = argument if isinstance(argument, list) else (argument, {})

        def replaced(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name in more:
                return str(self.value(more[name]))
            return str(self._fn_getatt(name) if "." in name else self._ref(name))

        return _REFERENCE.sub(replaced, text).replace("${!", "${")

    def _fn_join(self, argument: Any) -> str:
        return str(argument[0]).join(map(str, self.value(argument[1])))

    def _fn_select(self, argument: Any) -> Any:
        entries = self.value(argument[1])
        index = int(self.value(argument[0]))
        return entries[index] if isinstance(entries, list) and index < len(entries) else "unknown"

    def _fn_split(self, argument: Any) -> list[str]:
        return str(self.value(argument[1])).split(argument[0])

    def _fn_findinmap(self, argument: Any) -> Any:
        found: Any = self.document.get("Mappings", {})
        for key in map(self.value, argument[:3]):
            found = found.get(key, {}) if isinstance(found, dict) else {}
        return found or "unknown"

    def _fn_importvalue(self, argument: Any) -> Any:
        name = str(self.value(argument))
        return self.exports[name]() if name in self.exports else name

    def _fn_getstackoutput(self, argument: Any) -> Any:
        key = f"{self.value(argument['StackName'])}.{argument['OutputName']}"
        return self.exports[key]() if key in self.exports else key

    def _fn_if(self, argument: Any) -> Any:
        return self.value(argument[1] if self._holds(argument[0]) else argument[2])

    def _holds(self, condition: Any) -> bool:
        if isinstance(condition, str):
            if not condition:
                return True
            condition = self.document.get("Conditions", {}).get(condition, {})
        [(function, parts)] = condition.items() or [("", [])]
        match function:
            case "Fn::Equals":
                return bool(self.value(parts[0]) == self.value(parts[1]))
            case "Fn::Not":
                return not self._holds(parts[0])
            case "Fn::And":
                return all(map(self._holds, parts))
            case "Fn::Or":
                return any(map(self._holds, parts))
        return self._holds(parts) if function == "Condition" else True

    def consumers(self) -> Iterator[tuple[str, Json]]:
        """Yield the functions that read a queue, each with the properties of its mapping."""
        for name in self.of_type(_FUNCTIONS[0]):
            for event in self._resources[name].get("Properties", {}).get("Events", {}).values():
                if event.get("Type") == "SQS":
                    given = event.get("Properties", {})
                    yield name, {"EventSourceArn": given.get("Queue"), **given}
        for name in self.of_type("AWS::Lambda::EventSourceMapping"):
            given = self._resources[name].get("Properties", {})
            function = self._function(given.get("FunctionName"))
            source = str(self.value(given.get("EventSourceArn")))
            if function and ":sqs:" in source:
                yield function, given

    def _function(self, given: Any) -> str:
        """Return the logical id of the function that an expression names, also by its alias."""
        name = self._referred(given)
        if name and self._resources[name].get("Type") not in _FUNCTIONS:
            inner = self._resources[name].get("Properties", {}).get("FunctionName")
            return self._function(inner) if inner is not None else ""
        known = {self.name(each): each for each in self.of_type(*_FUNCTIONS)}
        return name or known.get(str(self.value(given)).rpartition(":")[2], "")

    def _referred(self, given: Any) -> str:
        """Return the first resource that an expression refers to; empty without one."""
        if isinstance(given, dict):
            for key, argument in given.items():
                if key in {"Ref", "Fn::GetAtt"}:
                    name = argument if isinstance(argument, str) else argument[0]
                    return (
                        name.partition(".")[0] if name.partition(".")[0] in self._resources else ""
                    )
                if key == "Fn::Sub":
                    text = argument if isinstance(argument, str) else argument[0]
                    names = [name.partition(".")[0] for name in _REFERENCE.findall(text)]
                    return next((name for name in names if name in self._resources), "")
                if found := self._referred(argument):
                    return found
        entries = given if isinstance(given, list) else []
        return next(filter(None, map(self._referred, entries)), "")

    def subject(
        self, function: str, mapping: Json, stacks: "Iterable[_Stack]", root: Path | None
    ) -> Subject:
        """Return the subject of a function."""
        runtime = str(self.property(function, "Runtime", "python"))
        if not runtime.startswith("python"):
            raise SubjectError(f"{function} runs on {runtime}; the check runs handlers in Python")
        queue = self._referred(mapping["EventSourceArn"])
        self.source = queue
        redrive = self.property(queue, "RedrivePolicy", {}) if queue else {}
        if isinstance(redrive, str):
            redrive = json.loads(redrive)
        if queue:
            raw = self._resources[queue].get("Properties", {}).get("RedrivePolicy", {})
            self.dead_letters = self._referred(raw)
        variables = self.property(function, "Environment", {}).get("Variables", {})
        named = [(stack, [*stack.of_type("AWS::SQS::Queue")]) for stack in stacks]
        return Subject(
            handler=str(self.property(function, "Handler", "index.handler")),
            events=tuple(_samples_beside(self.file)),
            root=root or self._package(function),
            environment={key: str(value) for key, value in variables.items()},
            tables=tuple(s.table(t) for s in stacks for t in s.of_type(*_TABLES)),
            queues=tuple(
                stack.name(name)
                for stack, names in named
                for name in names
                if name not in {stack.source, stack.dead_letters}
            ),
            topics=tuple(s.name(t) for s in stacks for t in s.of_type("AWS::SNS::Topic")),
            buckets=tuple(s.name(b) for s in stacks for b in s.of_type("AWS::S3::Bucket")),
            set_up=partial(_set_up, [(stack, stack.others()) for stack in stacks]),
            batch_failures="ReportBatchItemFailures"
            in (self.value(mapping.get("FunctionResponseTypes")) or ()),
            batch_size=int(self.value(mapping.get("BatchSize")) or 10),
            fifo=self._is_fifo(queue) if queue else False,
            timeout_seconds=int(self.property(function, "Timeout", 3)),
            visibility_seconds=int(self.property(queue, "VisibilityTimeout", 30) if queue else 30),
            max_receives=int(redrive.get("maxReceiveCount", 5)),
        )

    def table(self, name: str) -> Table:
        """Return a table."""
        types = {
            entry["AttributeName"]: entry["AttributeType"]
            for entry in self.property(name, "AttributeDefinitions", ())
        }

        def keys(schema: Iterable[Json]) -> tuple[str, str]:
            ordered = sorted(schema, key=lambda entry: str(entry["KeyType"]))  # HASH, RANGE
            names = [entry["AttributeName"] for entry in ordered]
            key, sort_key = [*(f"{each}:{types.get(each, 'S')}" for each in names), ""][:2]
            return key, sort_key

        simple = self.property(name, "PrimaryKey", {"Name": "id", "Type": "String"})
        default = [{"AttributeName": simple["Name"], "KeyType": "HASH"}]
        types.setdefault(simple["Name"], str(simple.get("Type", "S"))[0])
        kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        indexes = [index for kind in kinds for index in self.property(name, kind, ())]
        ttl = self.property(name, "TimeToLiveSpecification", {})
        enabled = str(ttl.get("Enabled", "false")).lower() == "true"
        key, sort_key = keys(self.property(name, "KeySchema", default))
        return Table(
            self.name(name),
            key,
            sort_key,
            ttl=str(ttl["AttributeName"]) if enabled else None,
            indexes=tuple(Index(each["IndexName"], *keys(each["KeySchema"])) for each in indexes),
        )

    def others(self) -> list[tuple[str, str, Any]]:
        """Return type, name and value of what `set_up` creates."""
        found = []
        for kind, key in _VALUES.items():
            found += [(kind, self.name(n), self.property(n, key, "")) for n in self.of_type(kind)]
        return found

    def _package(self, function: str) -> Path:
        """Return the folder of a function's package; a file is unpacked."""
        code = self.property(function, "Code", {})
        inline = code.get("ZipFile") if isinstance(code, dict) else None
        inline = inline or self.property(function, "InlineCode")
        if inline:
            folder = Path(tempfile.mkdtemp(prefix="redelivery-"))
            (folder / "index.py").write_text(str(inline))
            return folder
        metadata = self._resources[function].get("Metadata", {})
        given = metadata.get("aws:asset:path") or self.property(function, "CodeUri")
        if given is None and isinstance(code, str):
            given = code
        if given is None and isinstance(code, dict):  # an asset of the CDK, by its hash
            digest = str(code.get("S3Key", "")).rpartition("/")[2].removesuffix(".zip")
            names = (f"asset.{digest}", f"asset.{digest}.zip")
            given = next((n for n in names if self.file.with_name(n).exists()), None)
        if given is None and self._resources[function]["Type"] == _FUNCTIONS[0]:
            given = "."
        path = self.file.parent / str(given)
        if given is None or not path.exists():
            raise SubjectError(f"the template does not show where {function}'s code is: add --root")
        if path.is_dir():
            return path.resolve()
        folder = Path(tempfile.mkdtemp(prefix="redelivery-"))
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        return folder


def _merged(shared: Any, given: Any) -> Any:
    """Return a property of a function with that of the globals, as SAM merges them."""
    if isinstance(shared, dict) and isinstance(given, dict):
        return {**shared, **{key: _merged(shared.get(key), value) for key, value in given.items()}}
    return shared if given is None else given


_VALUES = {
    "AWS::Events::EventBus": "Name",
    **dict.fromkeys(_MACHINES, "Definition"),
    "AWS::SSM::Parameter": "Value",
    "AWS::SecretsManager::Secret": "SecretString",
}
"""Other resources of a template, by type, with the property that has their content."""

_MACHINE = json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})


def _set_up(stacks: Iterable[tuple[_Stack, Iterable[tuple[str, str, Any]]]]) -> None:
    session = boto3.Session(region_name=REGION)
    for _, entries in stacks:
        for kind, name, value in entries:
            if kind == "AWS::Events::EventBus":
                session.client("events").create_event_bus(Name=name)
            elif kind in _MACHINES:
                session.client("stepfunctions").create_state_machine(
                    name=name, definition=_MACHINE, roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine"
                )
            elif kind == "AWS::SSM::Parameter":
                session.client("ssm").put_parameter(Name=name, Value=str(value), Type="String")
            else:
                with suppress(ClientError):
                    session.client("secretsmanager").create_secret(
                        Name=name, SecretString=str(value or "secret")
                    )


def _samples_beside(file: Path) -> Iterator[Path]:
    """Yield the SQS events of the folder `events`, where `sam init` puts them."""
    for path in sorted(file.parent.glob("events/*.json")):
        with suppress(ValueError, OSError, KeyError, IndexError, TypeError):
            if json.loads(path.read_text())["Records"][0]["eventSource"] == "aws:sqs":
                yield path


def _from_terraform(document: Json) -> Json:
    """Return what `terraform show -json` prints of a state or plan, as a template."""
    values = document.get("values") or document.get("planned_values") or {}
    found = {each["address"]: each for each in _in_modules(values.get("root_module", {}))}
    names = {address: re.sub(r"\W+", "", address.title()) for address in found}
    texts: dict[str, Json] = {}
    for address, resource in found.items():
        known, name = resource.get("values", {}), names[address]
        texts[str(known.get("arn"))] = {"Fn::GetAtt": [name, "Arn"]}
        if resource["type"] == "aws_sqs_queue":
            texts |= {str(known.get(key)): {"Ref": name} for key in ("id", "url")}

    def linked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: linked(entry) for key, entry in value.items()}
        return texts.get(value, value) if isinstance(value, str) else value

    resources = {
        names[address]: {
            "Type": _TERRAFORM[resource["type"]][0],
            "Properties": linked(_TERRAFORM[resource["type"]][1](resource.get("values", {}))),
        }
        for address, resource in found.items()
        if resource["type"] in _TERRAFORM
    }
    return {"Resources": resources}


def _in_modules(module: Json) -> Iterator[Json]:
    yield from module.get("resources", ())
    for child in module.get("child_modules", ()):
        yield from _in_modules(child)


def _block(given: Json, name: str) -> Json:
    return next(iter(given.get(name) or ()), {})


def _schema(hash_key: str | None, range_key: str | None) -> list[Json]:
    keys = ((hash_key, "HASH"), (range_key, "RANGE"))
    return [{"AttributeName": name, "KeyType": kind} for name, kind in keys if name]


_TERRAFORM: Mapping[str, tuple[str, Callable[[Json], Json]]] = {
    "aws_lambda_function": (
        "AWS::Lambda::Function",
        lambda v: {
            "FunctionName": v.get("function_name"),
            "Handler": v.get("handler"),
            "Runtime": v.get("runtime"),
            "Timeout": v.get("timeout"),
            "Environment": {"Variables": _block(v, "environment").get("variables") or {}},
            "Code": v.get("filename"),
        },
    ),
    "aws_lambda_event_source_mapping": (
        "AWS::Lambda::EventSourceMapping",
        lambda v: {
            "EventSourceArn": v.get("event_source_arn"),
            "FunctionName": v.get("function_name") or v.get("function_arn"),
            "BatchSize": v.get("batch_size"),
            "FunctionResponseTypes": v.get("function_response_types"),
        },
    ),
    "aws_sqs_queue": (
        "AWS::SQS::Queue",
        lambda v: {
            "QueueName": v.get("name"),
            "VisibilityTimeout": v.get("visibility_timeout_seconds"),
            "FifoQueue": v.get("fifo_queue"),
            "RedrivePolicy": json.loads(v.get("redrive_policy") or "{}"),
        },
    ),
    "aws_dynamodb_table": (
        "AWS::DynamoDB::Table",
        lambda v: {
            "TableName": v.get("name"),
            "KeySchema": _schema(v.get("hash_key"), v.get("range_key")),
            "AttributeDefinitions": [
                {"AttributeName": each["name"], "AttributeType": each["type"]}
                for each in v.get("attribute") or ()
            ],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": each["name"],
                    "KeySchema": _schema(each.get("hash_key"), each.get("range_key")),
                }
                for each in v.get("global_secondary_index") or ()
            ],
            "TimeToLiveSpecification": {
                "AttributeName": _block(v, "ttl").get("attribute_name"),
                "Enabled": _block(v, "ttl").get("enabled", False),
            },
        },
    ),
    "aws_sns_topic": ("AWS::SNS::Topic", lambda v: {"TopicName": v.get("name")}),
    "aws_s3_bucket": ("AWS::S3::Bucket", lambda v: {"BucketName": v.get("bucket")}),
}
"""Terraform's types, as CloudFormation's."""
