"""Phases of a change: `probe` is renamed, `loyalty` and the webhooks removed, tables restored."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import aws_cdk as cdk

from demo.scenarios.change.app import LOYALTY
from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    ExistingTable,
    SynthError,
    assemble,
    synthesize,
)
from stacks.registry import REGISTRY
from tests.e2e.app import INGRESS, NO_FOLDERS, PROBE

GAUGE = replace(PROBE, name="gauge", renamed_from="probe")

PHASES: Mapping[str, Sequence[ConsumerProps]] = {
    "before": (PROBE, LOYALTY),
    "renaming": (PROBE, GAUGE, LOYALTY),
    "retiring": (replace(PROBE, retiring=True), GAUGE, replace(LOYALTY, retiring=True)),
    "after": (GAUGE,),
    "restored": (GAUGE,),
}

WITH_WEBHOOKS = ("before", "renaming")

if __name__ == "__main__":
    app = cdk.App()
    try:
        phase = app.node.get_context("phase")
        webhooks = INGRESS if phase in WITH_WEBHOOKS else None
        lines = PHASES[phase]
        registry = replace(REGISTRY, consumers=lines, functions=NO_FOLDERS, webhooks=webhooks)
        restored = json.loads(app.node.try_get_context("restored") or "{}")
        tables = {name: ExistingTable(**each) for name, each in restored.items()}
        assemble(app, registry, DeploymentConfig(existing_tables=tables))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
