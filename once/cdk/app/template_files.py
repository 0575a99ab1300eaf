"""Templates and packages for teams that deploy with another tool than the CDK.

In: a registry. Out: the templates of the stacks, without assets and bootstrap, and the packages of
the functions. The constructs are those of `run_app`. The consumers' functions, their roles and
mappings are left to the other tool, for which the template has policies and outputs.
"""

import json
import platform
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aws_cdk import App

from once.cdk import functions
from once.cdk._lambda_function import PACKAGES
from once.cdk.app.assembly import assemble, record_names, synthesize
from once.cdk.app.registry import Registry, published_types
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.outbox_relay import RELAY_SERVICES
from once.cdk.packaging.function_package import package
from once.cdk.props import later_types
from once.cdk.synth_error import SynthError
from once.cdk.topics import flows
from once.names import RELAY, UNROUTED

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a package, so that the same content gives the same bytes."""

_METADATA = "Once"


@dataclass(frozen=True)
class Target:
    """Properties of the functions that templates and packages are for, as CloudFormation has them.

    In the embedded AWS they run on this machine.
    """

    runtime: str
    architecture: str

    @classmethod
    def of(cls, config: DeploymentConfig) -> "Target":
        here = platform.machine().lower().replace("aarch64", "arm64").replace("amd64", "x86_64")
        return cls(config.runtime.name, here if config.local else "arm64")

    def __str__(self) -> str:
        return f"Runtime: {self.runtime}, Architectures: [{self.architecture}]"


@dataclass(frozen=True)
class Written:
    """The files that were written, and what they are for."""

    paths: list[Path]
    target: Target


def write_templates(
    registry: Registry, folder: Path, config: DeploymentConfig | None, context: Mapping[str, Any]
) -> Written:
    """Write the templates of the stacks into a folder; return them as they are deployed.

    The names in them count as deployed: they are added to the registry's file of deployed names.

    Raises:
        SynthError: the registry has faults; lists all of them.
    """
    with TemporaryDirectory() as scratch:
        app = App(outdir=scratch, analytics_reporting=False, context=dict(context))
        config = replace(config or DeploymentConfig(), external_functions=True)
        assemble(app, registry, config)
        templates = {each.stack_name: each.template for each in synthesize(app).stacks}
        deployed = DeploymentConfig.from_context(app.node, base=config)
    paths, target = [], Target.of(deployed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, template in templates.items():
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Lambda::Function":
                properties = resource["Properties"]
                properties["Code"], _ = properties["Code"]["ZipFile"].split()
        template.setdefault("Metadata", {})[_METADATA] = asdict(target)
        paths.append(folder / f"{name}.template.json")
        paths[-1].write_text(json.dumps(template, indent=1) + "\n")
    if not deployed.local:
        record_names(registry, {name: each["Outputs"] for name, each in templates.items()})
    return Written(paths, target)


def write_packages(
    registry: Registry, folder: Path, config: DeploymentConfig | None, context: Mapping[str, Any]
) -> Written:
    """Write the packages of the functions into a folder.

    Raises:
        SynthError: the folder has templates for another runtime or architecture.
    """
    app = App(analytics_reporting=False, context=dict(context))
    config = DeploymentConfig.from_context(app.node, base=config)
    target = Target.of(config)
    if faults := [*_contradictions(folder, target)]:
        raise SynthError("the packages would not fit their templates", faults)
    publishes = published_types(registry.lines)
    subscribed = [each for each in registry.consumers if each.name not in config.existing_queues]
    published = {event for types in publishes.values() for event in types}
    sweeps = any(flow.is_filtered for flow in flows(subscribed, published))
    own = [*([RELAY] if published else []), *([UNROUTED] if sweeps else [])]
    sources = {each.name: (registry.folder_of(each), each.aws_services) for each in registry.lines}
    sources |= {each: (functions.FOLDER / each, ()) for each in own}
    if later_types(registry.lines):
        sources[RELAY] = (functions.FOLDER / RELAY, RELAY_SERVICES)
    (folder / PACKAGES).mkdir(parents=True, exist_ok=True)
    written = []
    for name, (source, services) in sources.items():
        # Settings may be a parameter in Parameter Store.
        kept = None if services is None else {*services, "ssm"}
        written.append(folder / PACKAGES / f"{name}.zip")
        staged = package(name, source, kept, config)
        with zipfile.ZipFile(written[-1], "w") as archive:
            for path in sorted(each for each in staged.rglob("*") if each.is_file()):
                entry = zipfile.ZipInfo(path.relative_to(staged).as_posix(), _ZIP_EPOCH)
                entry.external_attr = 0o644 << 16  # Lambda runs the code as another user
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return Written(written, target)


def _contradictions(folder: Path, target: Target) -> Iterator[str]:
    for path in sorted(folder.glob("*.template.json")):
        made = json.loads(path.read_text()).get("Metadata", {}).get(_METADATA)
        if made and Target(**made) != target:
            yield (
                f"{path} was written for {Target(**made)}, and the packages are for {target}; run "
                "`once template` and `once package` with the same Python, and both with --local or "
                "both without"
            )
