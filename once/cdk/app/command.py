"""Command line of an app: synthesis, as `cdk` calls it, and the record of deployed names."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import App

from once.cdk.app.assembly import assemble, synthesize
from once.cdk.app.registry import Registry
from once.cdk.app.stage import Stage
from once.cdk.deployed_names import DeployedNames
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError

_SERVICE_STACK = "-service"
_USAGE = "usage: without arguments to synthesize, or `record OUTPUTS` after `cdk deploy`"


def run_app(
    registry: Registry,
    config: DeploymentConfig | None = None,
    stages: Sequence[Stage] = (),
    *,
    arguments: Sequence[str] | None = None,
) -> None:
    """Synthesize the app, or record deployed names; exit with a text if that has faults.

    Args:
        registry: the service.
        config: the configuration without stages, and on the embedded AWS; by default the defaults.
        stages: the deployments; without any there is one, in the account of the credentials.
        arguments: by default those of the process: none to synthesize; `record OUTPUTS` to add the
            registry's names to its file of deployed names, for each deployment in the file that
            `cdk deploy --outputs-file OUTPUTS` writes when it has succeeded.
    """
    try:
        match list(sys.argv[1:] if arguments is None else arguments):
            case []:
                app = App()
                assemble(app, registry, config, stages)
                synthesize(app)
            case ["record", outputs]:
                _record(registry, Path(outputs))
            case _:
                sys.exit(_USAGE)
    except SynthError as error:
        sys.exit(f"\n{error}\n")


def record_deployed(registry: Registry, outputs: Path) -> list[str]:
    """Record the registry's names for the deployments of an outputs file; return new names.

    It runs after a deployment has succeeded, never at synthesis.

    Args:
        registry: the service.
        outputs: the file that `cdk deploy --outputs-file` writes.

    Raises:
        SynthError: the file of deployed names is missing or malformed.
    """
    stacks = json.loads(outputs.read_text())
    names = DeployedNames.of(registry.consumers, registry.webhooks)
    services = [s.removesuffix(_SERVICE_STACK) for s in stacks if s.endswith(_SERVICE_STACK)]
    return [new for each in services for new in names.record(registry.deployed, each)]


def _record(registry: Registry, outputs: Path) -> None:
    new = record_deployed(registry, outputs)
    if new:
        sys.stdout.write(f"{registry.deployed.name}: added {', '.join(new)}; commit it\n")
