"""cfn-lint: the templates say what CloudFormation understands."""

import json

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.stacks.cloud import Cloud, Json

# The CDK writes down dependencies that a reference makes as well.
RULES = ManualArgs(ignore_checks=["W3005"])


def findings(template: Json) -> list[str]:
    return [str(match) for match in lint(json.dumps(template), config=RULES)]


@pytest.mark.parametrize("stack", ["state", "service"])
def test_a_template_has_no_finding(cloud: Cloud, stack: str) -> None:
    assert findings(getattr(cloud, stack)) == []


def test_a_wrong_property_is_found(cloud: Cloud) -> None:
    wrong = json.loads(json.dumps(cloud.service).replace("arm64", "arm65"))
    assert any("E3030" in finding for finding in findings(wrong))
