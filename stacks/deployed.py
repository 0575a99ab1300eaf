"""Record of the names that `make deploy` has deployed: `python -m stacks.deployed OUTPUTS`.

It runs after `cdk deploy` has succeeded, never at synthesis. Commit the file that it changes.
"""

import json
import sys
from pathlib import Path

from once.cdk import DeployedNames, SynthError
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from stacks.webhooks import WEBHOOKS

DEPLOYED = ROOT / "stacks" / "deployed.json"

_SERVICE_STACK = "-service"


def record(outputs: Path, file: Path = DEPLOYED) -> list[str]:
    """Record the registry's names for the deployments of an outputs file; return new names.

    Args:
        outputs: the file that `cdk deploy --outputs-file` writes when it has succeeded.
        file: the file of deployed names.

    Raises:
        SynthError: the file of deployed names is missing or malformed.
    """
    stacks = json.loads(outputs.read_text())
    names = DeployedNames.of(CONSUMERS, WEBHOOKS)
    services = [s.removesuffix(_SERVICE_STACK) for s in stacks if s.endswith(_SERVICE_STACK)]
    return [new for service in services for new in names.record(file, service)]


if __name__ == "__main__":
    try:
        new = record(Path(sys.argv[1]))
    except SynthError as error:
        sys.exit(f"\n{error}\n")
    if new:
        sys.stdout.write(f"{DEPLOYED.relative_to(ROOT)}: added {', '.join(new)}; commit it\n")
