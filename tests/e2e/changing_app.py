"""Two consumers in the phases of a change: `probe` is renamed, `loyalty` removed."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import aws_cdk as cdk

from demo.scenarios.change.app import LOYALTY
from once.cdk import ConsumerProps, SynthError, assemble, synthesize
from stacks.registry import REGISTRY
from tests.e2e.app import NO_FOLDERS, PROBE

GAUGE = replace(PROBE, name="gauge", renamed_from="probe")

PHASES: Mapping[str, Sequence[ConsumerProps]] = {
    "before": (PROBE, LOYALTY),
    "renaming": (PROBE, GAUGE, LOYALTY),
    "retiring": (replace(PROBE, retiring=True), GAUGE, replace(LOYALTY, retiring=True)),
    "after": (GAUGE,),
}

if __name__ == "__main__":
    app = cdk.App()
    try:
        lines = PHASES[app.node.get_context("phase")]
        registry = replace(REGISTRY, consumers=lines, functions=NO_FOLDERS, webhooks=None)
        assemble(app, registry)
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
