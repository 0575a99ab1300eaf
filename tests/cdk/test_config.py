"""Context in, deployment out; what is malformed is refused with what would do."""

import json
import sys
from dataclasses import asdict, replace
from typing import Any

import aws_cdk as cdk
import pytest

from once.cdk.deployment_config import KNOWN_PYTHONS, DeploymentConfig
from once.cdk.props import ConsumerProps
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT

LINE = ConsumerProps(
    "refunds", external=("order.refunded",), visibility_seconds=400, max_concurrency=50
)


def read(**context: Any) -> DeploymentConfig:
    return DeploymentConfig.from_context(cdk.App(context=context).node)


def test_cdk_json_shows_the_defaults() -> None:
    shown = json.loads((ROOT / "cdk.json").read_text())["context"]
    parameters = {name for line in CONSUMERS for name in line.parameters}
    ours = {
        name: value
        for name, value in shown.items()
        if not name.startswith("@aws-cdk/") and name not in parameters
    }
    assert ours == {
        name: value for name, value in asdict(DeploymentConfig()).items() if name in ours
    }
    assert asdict(DeploymentConfig()).keys() - ours.keys() == {
        "python_runtime",
        "runtime_lock",
        "parameters",
        "faults",
    }


def test_the_command_line_gives_text_and_cdk_json_gives_values() -> None:
    assert read(local="true", redrives="0") == read(local=True, redrives=0)
    assert read(local="true").local is True
    assert read(local="false").local is False


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
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
        ("python_runtime", "3.10", "use one of 3.11, 3.12"),
    ],
)
def test_malformed_context_is_a_fault_with_a_remedy(key: str, value: Any, remedy: str) -> None:
    (fault,) = read(**{key: value}).faults
    assert fault.startswith(f"context {key}={value!r}: {remedy}")


def test_all_malformed_values_are_reported_together() -> None:
    assert len(read(local="yes", redrives="two").faults) == 2


def test_runtime_is_the_python_that_synthesizes() -> None:
    minor = min(sys.version_info.minor, KNOWN_PYTHONS[-1])
    assert read().runtime.name == f"python3.{minor}"


@pytest.mark.parametrize("minor", KNOWN_PYTHONS)
def test_runtime_can_be_overridden(minor: int) -> None:
    assert read(python_runtime=f"3.{minor}").runtime.name == f"python3.{minor}"


def test_known_pythons_start_with_the_librarys_oldest() -> None:
    assert KNOWN_PYTHONS[0] == 11
    assert len(KNOWN_PYTHONS) > 1


def test_aws_gets_the_line_as_it_stands() -> None:
    assert read().adapt(LINE) == LINE


@pytest.mark.parametrize("local", [False, True])
def test_group_commit_is_off_for_all_by_one_value(*, local: bool) -> None:
    line = ConsumerProps("refunds", ("order.placed",), group_size=20)
    assert read(local=local).adapt(line).group_size == 20
    assert read(local=local, group_commit=False).adapt(line).group_size == 1


def test_parameters_are_read_as_the_command_line_would_give_them() -> None:
    node = cdk.App(context={"bank": "https://example.com", "tries": 3, "blank": " "}).node
    told = DeploymentConfig.from_context(node, ["bank", "tries", "blank", "missing"]).parameters
    assert told == {"bank": "https://example.com", "tries": "3"}


@pytest.mark.parametrize(("given", "effect", "timeout"), [(8, 2, 7), (1, 1, 6)])
def test_a_killed_effect_comes_back_soon_on_the_embedded_aws(
    given: int, effect: int, timeout: int
) -> None:
    line = replace(LINE, effect_timeout_seconds=given, batch_size=1)
    adapted = read(local=True).adapt(line)
    assert (adapted.effect_timeout_seconds, adapted.timeout_seconds) == (effect, timeout)
    assert adapted.visibility == 6 * timeout


def test_every_message_of_a_batch_may_need_a_call_on_the_embedded_aws_too() -> None:
    line = replace(LINE, effect_timeout_seconds=2, batch_size=4, timeout_seconds=60)
    assert read(local=True).adapt(line).timeout_seconds == 5 + 4 * 2


def test_the_embedded_aws_gets_short_times_and_derived_visibility() -> None:
    adapted = read(local=True).adapt(LINE)
    assert (adapted.timeout_seconds, adapted.visibility, adapted.max_concurrency) == (5, 30, 3)
