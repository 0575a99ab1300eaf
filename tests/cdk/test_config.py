"""`DeploymentConfig` from the CDK context, and the properties that follow from both."""

import json
import sys
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest

from once.cdk.deployment_options import KNOWN_PYTHONS, DeploymentConfig
from once.cdk.props import ConsumerProps, Rollout, WarmThroughput
from tests.stacks.cloud import CONTEXT, Cloud

LINE = ConsumerProps(
    "refunds", external=("order.refunded",), visibility_seconds=400, max_concurrency=50
)


def read(**context: Any) -> DeploymentConfig:
    return DeploymentConfig.from_context(cdk.App(context=context).node)


def test_the_command_line_gives_text_and_cdk_json_gives_values() -> None:
    assert read(local="true", redrives="0") == read(local=True, redrives=0)
    assert read(local="true").local is True
    assert read(local="false").local is False


MALFORMED: list[tuple[str, Any, str]] = [
    ("service", "Once!", "use at most 20 lower-case letters"),
    ("local", "yes", "say true or false"),
    ("dedup_window_days", "a month", "give a whole number"),
    ("redrives", -1, "give a whole number"),
    ("provider_retry_days", 1.5, "give a whole number"),
    ("log_level", "LOUD", "use one of DEBUG, INFO"),
    ("group_commit", "off", "say true or false"),
    ("email_sender", "Orders", "give an e-mail address"),
    ("email_sender", "a@b", "give an e-mail address"),
    ("email_sender", "a b@example.com", "give an e-mail address"),
    ("email_sender", "Shop <a@example.com>", "give an e-mail address"),
    ("ingress_publishers", "sqs", "give ids of accounts, s3 and events"),
    ("ingress_publishers", "1234", "give ids of accounts, s3 and events"),
    ("consumers_per_stack", "0", "give a whole number, 1 or more"),
    ("python_runtime", "3.10", "use one of 3.11, 3.12"),
    *(
        ("dedup_warm_throughput", text, "give read and write units a second, such as 24000,8000")
        for text in ("24000", "24000,", "24000,8000,1", "-1,8000", "a,b")
    ),
]


def test_malformed_context_is_a_fault_with_a_remedy() -> None:
    for key, value, remedy in MALFORMED:
        (fault,) = read(**{key: value}).faults
        assert fault.startswith(f"context {key}={value!r}: {remedy}")
    assert len(read(local="yes", redrives="two").faults) == 2


def test_warm_throughput_is_read_and_is_none_on_the_embedded_aws() -> None:
    warm = WarmThroughput(24_000, 8_000)
    assert read(dedup_warm_throughput="24000,8000").dedup_warm_throughput == warm
    assert (read().warm(warm), read(local=True).warm(warm)) == (warm, None)


def test_runtime_is_the_python_that_synthesizes_or_the_one_that_is_named() -> None:
    minor = min(sys.version_info.minor, KNOWN_PYTHONS[-1])
    assert read().runtime.name == f"python3.{minor}"
    for minor in KNOWN_PYTHONS:
        assert read(python_runtime=f"3.{minor}").runtime.name == f"python3.{minor}"
    assert KNOWN_PYTHONS[0] == 11
    assert len(KNOWN_PYTHONS) > 1


def test_parameters_are_read_as_the_command_line_would_give_them() -> None:
    node = cdk.App(context={"bank": "https://example.com", "tries": 3, "blank": " "}).node
    config = DeploymentConfig.from_context(node, ["bank", "tries", "blank", "missing"])
    assert config.parameters == {"bank": "https://example.com", "tries": "3"}


def test_one_value_switches_an_option_of_all_consumers_off() -> None:
    line = replace(LINE, group_size=20, rollout=Rollout.LINEAR_10_PERCENT_EVERY_1_MINUTE)
    for local in (False, True):
        assert read(local=local).adapt(line).group_size == 20
        assert read(local=local, group_commit=False).adapt(line).group_size == 1
    assert read(gradual_rollout=False).adapt(line).rollout is Rollout.ALL_AT_ONCE
    assert read(local=True).adapt(line).rollout is Rollout.ALL_AT_ONCE
    assert read().adapt(line) == line


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
    for name, (value, reason) in OTHERWISE.items():
        assert recommended[name] != value
        assert len(reason.split()) > 5
    flags = {name: value for name, value in CONTEXT.items() if name.startswith("@aws-cdk")}
    wrong = {name: value for name, value in expected.items() if flags.get(name) != value}
    assert wrong == {}, (
        "these flags belong into cdk.json; compare the templates before and after, and list a flag "
        f"that must stay off in OTHERWISE:\n{json.dumps(wrong, indent=2)}"
    )
    assert flags.keys() - expected.keys() == set(), "the installed CDK does not know these flags"
