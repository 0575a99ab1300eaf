"""The subject of a check, read from a template: SAM, CloudFormation or synthesized CDK.

In: the file, and a function's name if the template has several that read a queue. Out: a `Subject`
with the function's package and settings, its queue, and everything else that exists.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
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
_FUNCTION, _MAPPING = "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"
_TABLE, _MACHINE = "AWS::DynamoDB::Table", "AWS::StepFunctions::StateMachine"
_QUEUE, _TOPIC, _BUCKET = "AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::S3::Bucket"
_BUS, _PARAMETER = "AWS::Events::EventBus", "AWS::SSM::Parameter"
_SECRET = "AWS::SecretsManager::Secret"  # noqa: S105 - a type of resource
_STREAM = "AWS::Kinesis::Stream"
_TYPES = {
    _QUEUE: ("QueueName", "sqs:{}:"),
    _TABLE: ("TableName", "dynamodb:{}:table/"),
    _TOPIC: ("TopicName", "sns:{}:"),
    _BUCKET: ("BucketName", "s3:::"),
    _FUNCTION: ("FunctionName", "lambda:{}:function:"),
    _BUS: ("Name", "events:{}:event-bus/"),
    _MACHINE: ("StateMachineName", "states:{}:stateMachine:"),
    _PARAMETER: ("Name", "ssm:{}:parameter/"),
    _SECRET: ("Name", "secretsmanager:{}:secret:"),
    _STREAM: ("Name", "kinesis:{}:stream/"),
}
"""Types of resources: the property that names one, and the beginning of its ARN."""

_NAMED_BY_ARN = (_TOPIC, _SECRET, _MACHINE)
"""Types of which `Ref` is the ARN, and not the name."""

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
    stacks = _stacks(file)
    every = [(stack, *found) for stack in stacks for found in stack.consumers()]
    chosen = [
        (stack, name, mapping)
        for stack, name, mapping in every
        if function in {"", name, stack.name(name), stack.property(name, "Handler")}
    ]
    if len({name for _, name, _ in chosen}) != 1:  # its first mapping is the one that it is for
        known = ", ".join(dict.fromkeys(name for _, name, _ in every))
        told = f"name one of {known}" if known else "no function reads a queue"
        if not known and (streams := [name for stack in stacks for name, _ in stack.consumers("")]):
            told += f"; {', '.join(streams)} read a stream, and the check is of SQS"
        raise SubjectError(f"{file}: {told}")
    stack, name, mapping = chosen[0]
    return stack.subject(name, mapping, stacks, root)


def _stacks(file: Path) -> "list[_Stack]":
    """Return a template, and those that were synthesized with it."""
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - safe
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SubjectError(f"cannot read the template {file}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise SubjectError(f"{file} is no template of CloudFormation or SAM: it has no Resources")
    is_synthesized = file.with_name("manifest.json").exists()
    files = sorted(file.parent.glob("*.template.json")) if is_synthesized else []
    others = [_Stack(json.loads(other.read_text()), other) for other in files if other != file]
    stacks = [_Stack(document, file), *others]
    exports: dict[str, Callable[[], Any]] = {}
    for stack in stacks:
        stack.exports = exports
        for name, output in stack.document.get("Outputs", {}).items():
            own = f"{stack.file.name.partition('.')[0]}.{name}"
            exported = output.get("Export", {}).get("Name", own)
            value = partial(stack.value, output["Value"])
            exports |= {own: value, str(stack.value(exported)): value}
    return stacks


class _Stack:
    """One template, and the values of its expressions in the simulated AWS."""

    def __init__(self, document: Json, file: Path) -> None:
        self.document, self.file = document, file
        self.exports: Mapping[str, Callable[[], Any]] = {}
        self._resources: Json = _from_sam(document)
        conditions = {name: r.get("Condition") for name, r in self._resources.items()}
        self._resources = {n: r for n, r in self._resources.items() if self._holds(conditions[n])}
        self.source = self.dead_letters = ""

    def of_type(self, kind: str) -> list[str]:
        """Return the logical ids of resources."""
        return [name for name in self._resources if self._type(name) == kind]

    def _type(self, name: str) -> str:
        return str(self._resources[name].get("Type", ""))

    def _raw(self, name: str, key: str) -> Any:
        return self._resources[name].get("Properties", {}).get(key)

    def property(self, name: str, key: str, default: Any = None) -> Any:
        """Return a property of a resource."""
        value = self.value(self._raw(name, key))
        return default if value is None else value

    def name(self, name: str) -> str:
        """Return the name of a resource in the simulated AWS."""
        if name in {self.source, self.dead_letters}:
            return SOURCE if name == self.source else DLQ
        kind = self._type(name)
        key, _ = _TYPES.get(kind, ("", ""))
        given = str(self.property(name, key, "") if key else "") or re.sub(r"[^\w.-]", "-", name)
        if kind == _BUCKET:
            return given.lower().replace("_", "-")[:63].ljust(3, "x")
        needs = kind in {_QUEUE, _TOPIC} and self._is_fifo(name) and not given.endswith(".fifo")
        return f"{given}.fifo" if needs else given

    def _is_fifo(self, name: str) -> bool:
        given = (self.property(name, key) for key in ("FifoQueue", "FifoTopic"))
        return any(str(value).lower() == "true" for value in given)

    def value(self, given: Any) -> Any:
        """Return the value of an expression; what is unknown keeps a telling name."""
        if isinstance(given, list):
            return [self.value(entry) for entry in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            [(function, argument)] = given.items()
            if function in {"Ref", "Condition"} or function.startswith("Fn::"):
                return self._result(function, argument)
        return {key: self.value(entry) for key, entry in given.items()}

    def _result(self, function: str, argument: Any) -> Any:
        named: dict[str, Callable[..., Any]] = {
            "Ref": self._reference,
            "Fn::GetAtt": self._attribute,
            "Fn::Sub": self._substituted,
        }
        if function in named:
            return named[function](*(argument if isinstance(argument, list) else [argument]))
        match function, argument:
            case "Fn::Join", [separator, parts]:
                return str(separator).join(map(str, self.value(parts)))
            case "Fn::Split", [separator, text]:
                return str(self.value(text)).split(separator)
            case "Fn::Select", [index, entries]:
                entries, index = self.value(entries), int(self.value(index))
                known = isinstance(entries, list) and index < len(entries)
                return entries[index] if known else "unknown"
            case "Fn::FindInMap", [*keys]:
                found: Any = self.document.get("Mappings", {})
                for key in map(self.value, keys[:3]):
                    found = found.get(key, {}) if isinstance(found, dict) else {}
                return found or "unknown"
            case "Fn::ImportValue", _:
                return self._exported(str(self.value(argument)))
            case "Fn::GetStackOutput", {"StackName": stack, "OutputName": output}:
                return self._exported(f"{self.value(stack)}.{output}")
            case "Fn::If", [condition, yes, no]:
                return self.value(yes if self._holds(condition) else no)
        return function

    def _exported(self, name: str) -> Any:
        return self.exports[name]() if name in self.exports else name

    def _reference(self, name: str) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in self._resources:
            if self._type(name) == _QUEUE:
                return self._attribute(name, "QueueUrl")
            by_arn = self._type(name) in _NAMED_BY_ARN
            return self._attribute(name, "Arn") if by_arn else self.name(name)
        parameter = self.document.get("Parameters", {}).get(name, {})
        default = parameter.get("Default", next(iter(parameter.get("AllowedValues", ())), name))
        return default.split(",") if "List" in str(parameter.get("Type")) else default

    def _attribute(self, name: str, attribute: str = "") -> Any:
        if not attribute:
            name, _, attribute = name.partition(".")
        if name not in self._resources:
            return f"{name}.{attribute}"
        if attribute in {"Arn", "TopicArn", "Id"}:
            _, beginning = _TYPES.get(self._type(name), ("", "other:{}:"))
            return f"arn:aws:{beginning.format(f'{REGION}:{ACCOUNT}')}{self.name(name)}"
        if attribute == "QueueUrl":
            own = {self.source: "{source}", self.dead_letters: "{dlq}"}
            return own.get(name, f"{{queue:{self.name(name)}}}")
        return self.name(name) if attribute.endswith("Name") else f"{name}.{attribute}"

    def _substituted(self, text: str, more: Json = MappingProxyType({})) -> str:
        def replaced(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name in more:
                return str(self.value(more[name]))
            return str(self._attribute(name) if "." in name else self._reference(name))

        return _REFERENCE.sub(replaced, text).replace("${!", "${")

    def _holds(self, condition: Any) -> bool:
        if not isinstance(condition, dict):
            condition = self.document.get("Conditions", {}).get(condition, {})
        match [*condition.items()]:
            case [("Fn::Equals", [one, other])]:
                return bool(self.value(one) == self.value(other))
            case [("Fn::Not", [part])]:
                return not self._holds(part)
            case [("Fn::And", parts)]:
                return all(map(self._holds, parts))
            case [("Fn::Or", parts)]:
                return any(map(self._holds, parts))
            case [("Condition", name)]:
                return self._holds(name)
        return True

    def consumers(self, service: str = ":sqs:") -> Iterator[tuple[str, Json]]:
        """Yield the functions that read a queue, each with the properties of its mapping."""
        for name in self.of_type(_MAPPING):
            function = self._function(self._raw(name, "FunctionName"))
            if function and service in str(self.property(name, "EventSourceArn")):
                yield function, self._resources[name]["Properties"]

    def _function(self, given: Any) -> str:
        """Return the logical id of the function that an expression names, also by its alias."""
        name = self._referred(given)
        if name and self._type(name) != _FUNCTION:
            return self._function(self._raw(name, "FunctionName"))
        known = {self.name(each): each for each in self.of_type(_FUNCTION)}
        return name or known.get(str(self.value(given)).rpartition(":")[2], "")

    def _referred(self, given: Any) -> str:
        """Return the first resource that an expression refers to; empty without one."""
        if isinstance(given, list):
            return next(filter(None, map(self._referred, given)), "")
        for key, argument in given.items() if isinstance(given, dict) else ():
            text = argument[0] if isinstance(argument, list) and argument else argument
            if key in {"Ref", "Fn::GetAtt", "Fn::Sub"} and isinstance(text, str):
                names = _REFERENCE.findall(text) if key == "Fn::Sub" else [text]
                known = (name.partition(".")[0] for name in names)
                return next((name for name in known if name in self._resources), "")
            if found := self._referred(argument):
                return found
        return ""

    def subject(
        self, function: str, mapping: Json, stacks: "Sequence[_Stack]", root: Path | None
    ) -> Subject:
        """Return the subject of a function."""
        runtime = str(self.property(function, "Runtime", "python"))
        command = self.property(function, "ImageConfig", {}).get("Command")
        is_image = self.property(function, "PackageType") == "Image"
        if is_image and not command:
            told = "is an image, which names no handler: add ImageConfig.Command to it"
            raise SubjectError(f"{function} {told}")
        if not runtime.startswith("python"):
            raise SubjectError(f"{function} runs on {runtime}; the check runs handlers in Python")
        queue = self.source = self._referred(mapping["EventSourceArn"])
        redrive: Any = {}
        if queue:
            self.dead_letters = self._referred(self._raw(queue, "RedrivePolicy"))
            redrive = self.property(queue, "RedrivePolicy", {})
        if isinstance(redrive, str):
            redrive = json.loads(redrive)
        variables = self.property(function, "Environment", {}).get("Variables", {})
        layers, unread = self._layers(function)
        if mapping.get("FilterCriteria"):
            unread.append("FilterCriteria of the mapping: each sample reaches the function")
        unread += [
            f"the mapping of {self._referred(other['EventSourceArn'])}: the check is of the first"
            for name, other in self.consumers()
            if name == function and other is not mapping
        ]
        used = {*self._named_in(self._raw(function, "Environment"))}
        unread += [
            f"{name} ({self._type(name)}) is not created: `set_up` of a Subject may do it"
            for name in sorted(used)
            if self._type(name) not in _TYPES
        ]

        def number(what: str, given: Any, default: int) -> int:
            if given is None or str(given).isdecimal():
                return int(given or default)
            unread.append(f"{what} is {given}, which has no value here: {default} is taken")
            return default

        def names(kind: str) -> tuple[str, ...]:
            found = (stack.name(name) for stack in stacks for name in stack.of_type(kind))
            return tuple(name for name in found if name not in {SOURCE, DLQ})

        return Subject(
            handler=str(
                command[0] if command else self.property(function, "Handler", "index.handler")
            ),
            events=tuple(_samples_beside(self.file)),
            function=function,
            root=root or self._package(function),
            environment={key: str(value) for key, value in variables.items()},
            tables=tuple(s.table(t) for s in stacks for t in s.of_type(_TABLE)),
            queues=names(_QUEUE),
            topics=names(_TOPIC),
            buckets=names(_BUCKET),
            set_up=partial(_set_up, [other for stack in stacks for other in stack.others()]),
            batch_failures="ReportBatchItemFailures"
            in (self.value(mapping.get("FunctionResponseTypes")) or ()),
            batch_size=number("BatchSize", self.value(mapping.get("BatchSize")), 10),
            fifo=bool(queue) and self._is_fifo(queue),
            timeout_seconds=number("Timeout", self.property(function, "Timeout"), 3),
            visibility_seconds=number(
                "VisibilityTimeout", self.property(queue, "VisibilityTimeout") if queue else 30, 30
            ),
            max_receives=number("maxReceiveCount", redrive.get("maxReceiveCount"), 5),
            layers=tuple(layers),
            unread=tuple(unread),
        )

    def _layers(self, function: str) -> tuple[list[Path], list[str]]:
        """Return the folders of a function's layers in the template's folder, and what is not."""
        found, unread = [], []
        for layer in self._raw(function, "Layers") or ():
            name = self._referred([layer])
            content = (
                self.property(name, "ContentUri") or self.property(name, "Content") if name else ""
            )
            folder = self.file.parent / content if isinstance(content, str) and content else None
            if folder and folder.is_dir():
                found += [folder / "python" if (folder / "python").is_dir() else folder]
            else:
                told = "install its packages in this environment"
                unread.append(f"layer {name or self.value(layer)} has no folder here: {told}")
        return found, unread

    def _named_in(self, given: Any) -> Iterator[str]:
        """Yield every resource that an expression refers to."""
        if name := self._referred([given]):
            yield name
        for entry in (
            given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
        ):
            yield from self._named_in(entry)

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

        kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
        indexes = [index for kind in kinds for index in self.property(name, kind, ())]
        ttl = self.property(name, "TimeToLiveSpecification", {})
        enabled = str(ttl.get("Enabled", "false")).lower() == "true"
        key, sort_key = keys(self.property(name, "KeySchema"))
        return Table(
            self.name(name),
            key,
            sort_key,
            ttl=str(ttl["AttributeName"]) if enabled else None,
            indexes=tuple(Index(each["IndexName"], *keys(each["KeySchema"])) for each in indexes),
        )

    def others(self) -> Iterator[tuple[str, str, Any]]:
        """Yield type, name and content of what `set_up` creates."""
        content = {_PARAMETER: "Value", _SECRET: "SecretString", _MACHINE: "StateMachineType"}
        for kind in (_BUS, _MACHINE, _PARAMETER, _SECRET, _STREAM):
            for name in self.of_type(kind):
                yield kind, self.name(name), self.property(name, content.get(kind, ""), "")

    def _package(self, function: str) -> Path:
        """Return the folder of a function's package; a file is unpacked."""
        code = self.property(function, "Code", {})
        named = code if isinstance(code, dict) else {}
        if inline := named.get("ZipFile"):
            folder = Path(tempfile.mkdtemp(prefix="redelivery-"))
            (folder / "index.py").write_text(str(inline))
            return folder
        # An asset of the CDK has its path in the metadata, or its hash as a key.
        digest = str(named.get("S3Key", "")).rpartition("/")[2].removesuffix(".zip")
        metadata = self._resources[function].get("Metadata", {})
        asset = metadata.get("aws:asset:path") or metadata.get("DockerContext")
        candidates = [asset or code, f"asset.{digest}", f"asset.{digest}.zip"]
        paths = [self.file.parent / name for name in candidates if isinstance(name, str)]
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            raise SubjectError(f"the template does not show where {function}'s code is: add --root")
        if path.is_dir():
            return path.resolve()
        folder = Path(tempfile.mkdtemp(prefix="redelivery-"))
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        return folder


def _set_up(others: Iterable[tuple[str, str, Any]]) -> None:
    client = boto3.Session(region_name=REGION).client
    for kind, name, content in others:
        if kind == _BUS:
            client("events").create_event_bus(Name=name)
        elif kind == _STREAM:
            client("kinesis").create_stream(StreamName=name, ShardCount=1)
        elif kind == _PARAMETER:
            client("ssm").put_parameter(Name=name, Value=str(content), Type="String")
        elif kind == _SECRET:
            with suppress(ClientError):
                secret = str(content or "secret")
                client("secretsmanager").create_secret(Name=name, SecretString=secret)
        else:
            machine = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
            role = f"arn:aws:iam::{ACCOUNT}:role/machine"
            client("stepfunctions").create_state_machine(
                name=name,
                definition=json.dumps(machine),
                roleArn=role,
                type=content or "STANDARD",
            )


def _samples_beside(file: Path) -> Iterator[Path]:
    """Yield the SQS events of the folder `events`, where `sam init` puts them."""
    for path in sorted(file.parent.glob("events/*.json")):
        with suppress(ValueError, OSError, KeyError, IndexError, TypeError):
            if json.loads(path.read_text())["Records"][0]["eventSource"] == "aws:sqs":
                yield path


def _from_sam(document: Json) -> dict[str, Json]:
    """Return the resources of a template; those of SAM as CloudFormation's."""
    shared = document.get("Globals", {}).get("Function", {})
    found: dict[str, Json] = {}
    for name, resource in document["Resources"].items():
        kind, given = resource.get("Type"), resource.get("Properties") or {}
        if kind == "AWS::Serverless::Function":
            given = _merged(shared, given)
            inline = given.get("InlineCode")
            code = {"ZipFile": inline} if inline else given.get("CodeUri", ".")
            kind, given = _FUNCTION, {**given, "Code": code}
            for event, source in (given.get("Events") or {}).items():
                if source.get("Type") in {"SQS", "Kinesis", "DynamoDB"}:
                    mapping = source.get("Properties", {})
                    arn = mapping.get("Queue") or mapping.get("Stream")
                    own = {"EventSourceArn": arn, "FunctionName": {"Ref": name}}
                    entry = {**resource, "Type": _MAPPING, "Properties": {**mapping, **own}}
                    found[f"{name}{event}"] = entry
        elif kind == "AWS::Serverless::SimpleTable":
            simple = given.get("PrimaryKey", {"Name": "id"})
            key = {"AttributeName": simple["Name"], "KeyType": "HASH"}
            types = {**key, "AttributeType": str(simple.get("Type", "S"))[0]}
            kind, given = _TABLE, {**given, "KeySchema": [key], "AttributeDefinitions": [types]}
        elif kind == "AWS::Serverless::StateMachine":
            own = {"StateMachineName": given.get("Name"), "StateMachineType": given.get("Type")}
            kind, given = _MACHINE, {**given, **own}
        elif kind == "AWS::DynamoDB::GlobalTable":
            kind = _TABLE
        found[name] = {**resource, "Type": kind, "Properties": given}
    return found


def _merged(shared: Any, given: Any) -> Any:
    """Return properties of a function with those of the globals, as SAM merges them."""
    if isinstance(shared, dict) and isinstance(given, dict):
        return {**shared, **{key: _merged(shared.get(key), value) for key, value in given.items()}}
    return shared if given is None else given
