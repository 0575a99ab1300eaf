"""cdk.json sets every feature flag of the CDK, to the recommended value or for a stated reason."""

import json
from typing import Any

import pytest

from tests.stacks.cloud import CONTEXT, Cloud

OTHERWISE: dict[str, tuple[Any, str]] = {
    "@aws-cdk/core:enableAdditionalMetadataCollection": (
        False,
        "It adds to the usage data that the CDK reports, and this app reports none.",
    ),
}
"""Value and reason of each flag that does not have its recommended value."""


@pytest.fixture(scope="module")
def recommended(cloud: Cloud) -> dict[str, Any]:
    """The recommended value of each flag that the installed CDK knows."""
    manifest = json.loads((cloud.directory / "manifest.json").read_text())
    report = manifest["artifacts"]["aws-cdk-lib/feature-flag-report"]["properties"]["flags"]
    return {name: flag["recommendedValue"] for name, flag in report.items()}


def test_every_flag_is_set_to_the_recommended_value(recommended: dict[str, Any]) -> None:
    expected = recommended | {name: value for name, (value, _) in OTHERWISE.items()}
    flags = {name: value for name, value in CONTEXT.items() if name.startswith("@aws-cdk")}
    wrong = {name: value for name, value in expected.items() if flags.get(name) != value}
    assert wrong == {}, (
        "these flags belong into cdk.json; compare the templates before and after, and list a flag "
        f"that must stay off in OTHERWISE:\n{json.dumps(wrong, indent=2)}"
    )
    assert flags.keys() - expected.keys() == set(), "the installed CDK does not know these flags"


def test_a_flag_with_another_value_has_a_reason(recommended: dict[str, Any]) -> None:
    for name, (value, reason) in OTHERWISE.items():
        assert recommended[name] != value
        assert len(reason.split()) > 5
