"""The registry of each phase of the change scenario can be deployed."""

import json

import pytest

from demo.scenarios.change.app import PHASES, registry_of
from once.cdk import DeploymentConfig
from once.cdk.app.assembly import registry_faults
from tests.architecture.imports import ROOT

CONFIG = DeploymentConfig(
    local=True, parameters=json.loads((ROOT / "cdk.json").read_text())["context"]
)


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_has_no_fault(phase: str) -> None:
    assert registry_faults(registry_of(phase), CONFIG) == []
