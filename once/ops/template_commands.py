"""The commands `template` and `package`: a deployment with another tool than the CDK.

`template --check` compares the functions that the other tool has made with what their lines demand.
"""

import json
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from once.cdk.synth_error import SynthError
from once.names import ExternalOutput
from once.ops import terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedConsumer
from once.ops.errors import OpsError
from once.ops.progress import find_deployment, saying
from once.settings import SETTINGS

if TYPE_CHECKING:
    from once.cdk.app.template_files import Written

_THIS_MACHINE = {"127.0.0.1", "localhost", "::1"}
_CDK_FILE = Path(__file__).parent / "new" / "templates" / "cdk" / "cdk.json.jinja"
"""The CDK's feature flags, as a new service has them."""

app = terminal.command_group()


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """Options of both commands: the registry, and the folder that is written."""

    registry: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The module with REGISTRY and, if there is one, the CONFIG of all."
        ),
    ] = Path("registry.py")
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write into.")] = Path(
        "once.out"
    )
    context: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="NAME=VALUE", help="An option of the deployment."),
    ] = None

    local: Annotated[
        bool | None,
        typer.Option(
            "--local/--no-local",
            help="For the embedded AWS, or not; by default if AWS_ENDPOINT_URL is on this machine.",
        ),
    ] = None

    def write(self, what: str, **options: Any) -> "Written":
        """Write the templates or the packages of the registry."""
        pairs = [each.partition("=") for each in self.context or []]
        if wrong := [name for name, separator, _ in pairs if not separator]:
            fault = f"{', '.join(wrong)}: write NAME=VALUE"
            raise typer.BadParameter(fault, param_hint="--context")
        values = json.loads(_CDK_FILE.read_text())["context"] | options
        host = urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname
        is_local = host in _THIS_MACHINE if self.local is None else self.local
        values |= {"local": str(is_local).lower(), **{name: value for name, _, value in pairs}}
        file = self.registry
        if not file.is_file():
            raise OpsError(f"there is no module {file}: name it with --registry")
        sys.path.insert(0, str(file.resolve().parent))  # what the module imports lies beside it
        try:
            with saying(f"importing {file}, and the CDK"):
                found = runpy.run_path(str(file))
        finally:
            sys.path.pop(0)
        if "REGISTRY" not in found:
            raise OpsError(f"{file} has no REGISTRY: give it a once.cdk.Registry of this name")
        from once.cdk.app import template_files as templates  # the CDK takes seconds to load

        write = {"template": templates.write_templates, "package": templates.write_packages}[what]
        try:
            with saying(f"writing into {self.out}"):
                return write(found["REGISTRY"], self.out, found.get("CONFIG"), values)
        except SynthError as error:
            raise OpsError(str(error)) from None


@app.command()
def template(
    asked: RegistryOptions,
    service: terminal.ServiceOption = terminal.DEFAULT_SERVICE,
    split: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of consumers of one stack: 14 by default."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the deployed functions instead.")
    ] = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Write CloudFormation templates for another tool than the CDK.

    They are named as their stacks: one for the data, one for queues, topics, relay, alarms and
    dashboard, and further ones for consumers that it has no room for (--split). Deploy them in the
    order in which they are printed. From the outputs of all but the first, the other tool makes the
    consumers' functions.
    With --check, prints how these differ from their lines. Writing needs the extra `cdk`, and Node.
    """
    if not check:
        options: dict[str, Any] = {"service": service}
        options |= {"consumers_per_stack": split} if split else {}
        _tell(asked.write("template", **options), as_json=as_json)
        return
    consumers = find_deployment(service).consumers.values()
    faults = [each for one in consumers if one.contract for each in function_faults(one)]
    _print("faults", faults or ["every function fits its line"][as_json:], as_json=as_json)
    if faults:
        raise OpsError("functions differ from their lines: set them as the list says")


@app.command("package")
def package_command(asked: RegistryOptions, as_json: terminal.JsonOption = False) -> None:
    """Write the packages of all functions as zip files.

    The same sources make the same bytes. They are for arm64, and in the embedded AWS for this
    machine. Packages that the templates in the folder contradict are refused. Needs the
    extra `cdk`.
    """
    _tell(asked.write("package"), as_json=as_json)


def _tell(written: "Written", *, as_json: bool) -> None:
    if as_json:
        target = {"runtime": written.target.runtime, "architecture": written.target.architecture}
        terminal.print_json({"written": [*map(str, written.paths)], **target})
        return
    _print("written", written.paths, as_json=False)
    terminal.console.print(f"for functions with {written.target}", soft_wrap=True)


def _print(name: str, entries: Sequence[str | Path], *, as_json: bool) -> None:
    if as_json:
        terminal.print_json({name: [*map(str, entries)]})
        return
    for entry in entries:
        terminal.console.print(str(entry), soft_wrap=True)


def function_faults(consumer: DeployedConsumer) -> Iterator[str]:
    """Yield each difference of a function made by another tool from its line, with the remedy."""
    name, own, aws = consumer.function_name, consumer.contract, client("lambda")
    demands = json.loads(own[ExternalOutput.DEMANDS])
    try:
        found = aws.get_function_configuration(FunctionName=name)
    except aws.exceptions.ResourceNotFoundException:
        yield f"{name} does not exist; give the function this name, by which alarms and logs go"
        return
    variables = found.get("Environment", {}).get("Variables", {})
    words = {each: "".join(map(str.capitalize, each.split("_"))) for each in demands["Variables"]}
    wanted = {each: own[f"{ExternalOutput.VARIABLE}{word}"] for each, word in words.items()}
    yield from _differences(name, variables, {SETTINGS: own[ExternalOutput.SETTINGS], **wanted})
    yield from _differences(name, found, demands["Function"])
    reserved = "ReservedConcurrentExecutions"
    concurrency = aws.get_function_concurrency(FunctionName=name)
    yield from _differences(name, concurrency, {reserved: demands[reserved]})
    role, policy = found["Role"].rpartition("/")[2], own[ExternalOutput.POLICY]
    attached = client("iam").list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    if policy not in [each["PolicyArn"] for each in attached]:
        yield f"{name}: its role {role} lacks a policy; attach {policy}"
    for output, demanded, url in (
        (ExternalOutput.QUEUE, "Mapping", consumer.queue_url),
        (ExternalOutput.ISOLATION_QUEUE, "IsolationMapping", consumer.isolation_queue_url),
    ):
        if url is None:
            continue
        every = aws.list_event_source_mappings(EventSourceArn=own[output])["EventSourceMappings"]
        mappings = [each for each in every if each["FunctionArn"].split(":")[6] == name]
        if len(mappings) != 1:
            yield f"{name}: {len(mappings)} event source mappings read {own[output]}; make one"
        for mapping in mappings:
            yield from _differences(f"{name}: mapping of {url}", mapping, demands[demanded])
        least, attribute = demands["VisibilityTimeout"], "VisibilityTimeout"
        queue = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[attribute])
        if int(queue["Attributes"][attribute]) < least:
            yield f"{name}: {attribute} of {url} is too short; set it to {least}"


def _differences(
    subject: str, found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[str]:
    for name, value in wanted.items():
        if (found.get(name) or None) != (value or None):  # AWS leaves out or writes 0, [] and {}
            yield f"{subject}: {name} is {found.get(name)}; set it to {value}"
