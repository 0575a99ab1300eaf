"""The apps of the scenarios can be deployed."""

import json

import pytest

from demo.scenarios.apps import registry_of
from once.cdk import DeploymentConfig
from once.cdk.app.assembly import registry_faults
from tests.architecture.imports import ROOT

CONFIG = DeploymentConfig(
    local=True, parameters=json.loads((ROOT / "cdk.json").read_text())["context"]
)


@pytest.mark.parametrize("scenario", ["hostile", "fifo", "webhooks", "region"])
def test_the_registry_of_a_scenario_has_no_fault(scenario: str) -> None:
    assert registry_faults(registry_of(scenario), CONFIG) == []
