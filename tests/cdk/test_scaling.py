"""Scaling options: what a template has of them, and their faults."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from once.cdk import (
    ConsumerProps,
    DedupTable,
    DeploymentConfig,
    IdempotentConsumer,
    Pollers,
    RetainedTable,
    TableProps,
    WarmThroughput,
    consumer_set_faults,
    deployment_faults,
)
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.deployment_options import this_python
from stacks.folders import ROOT

SEATS = TableProps("seats", "show")
TICKETS = ConsumerProps(
    "tickets",
    external=("seat.booked",),
    tables=(SEATS,),
    folder=ROOT / "tests" / "wheel" / "app" / "functions" / "tickets",
)
CONFIG = DeploymentConfig()
WARM = WarmThroughput(24_000, 8_000)

Resources = dict[str, dict[str, Any]]


def synthesize(folder: Path, *, local: bool = False, **options: Any) -> Resources:
    """Return the properties of each resource of a consumer's stack, by its type and name."""
    context = {"local": local, "python_runtime": this_python() if local else "3.13"}
    stack = cdk.Stack(cdk.App(outdir=str(folder), context=context), "tickets")
    props = replace(TICKETS, **options)
    tables = {"seats": RetainedTable(stack, "seats", SEATS)}
    IdempotentConsumer(stack, props, dedup_table=DedupTable(stack, "dedup"), tables=tables)
    found = Template.from_stack(stack).to_json()["Resources"]
    return {name: resource.get("Properties", {}) for name, resource in found.items()}


def one(resources: Resources, prefix: str) -> dict[str, Any]:
    named = re.compile(f"{prefix}[0-9A-F]{{8}}")
    [found] = [properties for name, properties in resources.items() if named.fullmatch(name)]
    return found


def faults(**options: Any) -> list[str]:
    return list(consumer_props_faults(replace(TICKETS, **options), CONFIG))


def test_by_default_concurrency_is_bounded_and_nothing_is_reserved(tmp_path: Path) -> None:
    resources = synthesize(tmp_path)
    mapping = one(resources, "ticketsMapping")
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}
    assert one(resources, "ticketsHandOverAlarm")["EvaluationPeriods"] == 2
    assert "ProvisionedPollerConfig" not in mapping
    function = one(resources, "ticketsFunction")
    assert function.keys().isdisjoint({"ReservedConcurrentExecutions", "SnapStart"})
    assert not any("WarmThroughput" in properties for properties in resources.values())


def test_each_option_is_in_the_template(tmp_path: Path) -> None:
    resources = synthesize(
        tmp_path,
        pollers=Pollers(minimum=200, maximum=10_000),
        reserved_concurrency=100_002,
        mapping_metrics=False,
        snap_start=True,
    )
    mapping = one(resources, "ticketsMapping")
    assert mapping["ProvisionedPollerConfig"] == {"MinimumPollers": 200, "MaximumPollers": 10_000}
    assert "ScalingConfig" not in mapping
    assert "MetricsConfig" not in mapping
    assert not [name for name in resources if "HandOverAlarm" in name]
    isolation = one(resources, "ticketsIsolationMapping")
    assert isolation["ScalingConfig"] == {"MaximumConcurrency": 2}
    function = one(resources, "ticketsFunction")
    assert function["ReservedConcurrentExecutions"] == 100_002
    assert function["SnapStart"] == {"ApplyOn": "PublishedVersions"}


def test_snap_start_on_python_3_11_is_a_fault() -> None:
    props = replace(TICKETS, snap_start=True)
    old, new = (DeploymentConfig(python_runtime=version) for version in ("3.11", "3.12"))
    [fault] = consumer_props_faults(props, old)
    assert fault.startswith("snap_start=True on Python 3.11, of which Lambda takes no snapshots")
    assert list(consumer_props_faults(props, new)) == []


def test_the_embedded_aws_gets_no_scaling_option(tmp_path: Path) -> None:
    options = {"pollers": Pollers(2, 4), "reserved_concurrency": 42, "snap_start": True}
    resources = synthesize(tmp_path, local=True, **options)
    mapping = one(resources, "ticketsMapping")
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 3}
    assert "ProvisionedPollerConfig" not in mapping
    function = one(resources, "ticketsFunction")
    assert function.keys().isdisjoint({"ReservedConcurrentExecutions", "SnapStart"})
    assert DeploymentConfig(local=True).warm(WARM) is None
    assert CONFIG.warm(WARM) == WARM


def test_a_table_has_the_warm_throughput_of_its_declaration(tmp_path: Path) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "tables")
    DedupTable(stack, "dedup", WARM)
    RetainedTable(stack, "seats", replace(SEATS, warm_throughput=WARM))
    tables = Template.from_stack(stack).find_resources("AWS::DynamoDB::Table").values()
    units = {"ReadUnitsPerSecond": 24_000, "WriteUnitsPerSecond": 8_000}
    assert [table["Properties"]["WarmThroughput"] for table in tables] == [units, units]


@pytest.mark.parametrize(
    ("options", "mistake", "remedy"),
    [
        (
            {"pollers": Pollers(2, 4), "max_concurrency": 10},
            *("it has pollers= and max_concurrency=10", "leave max_concurrency out"),
        ),
        ({"pollers": Pollers(1, 4)}, "minimum=1", "choose 2 to 200"),
        ({"pollers": Pollers(201, 400)}, "minimum=201", "choose 2 to 200"),
        ({"pollers": Pollers(2, 10_001)}, "maximum=10001", "choose 2 to 10000"),
        ({"pollers": Pollers(5, 4)}, "minimum=5 over maximum=4", "lower the minimum"),
        ({"pollers": 4}, "pollers=4", "give Pollers(minimum=2, maximum=20)"),
        ({"pollers": Pollers(2, "4")}, "pollers=", "give Pollers("),  # type: ignore[arg-type]
        ({"reserved_concurrency": 11}, "its queue makes up to 10", "raise it to 12"),
        ({"reserved_concurrency": 9, "batch_size": 1}, "isolation queue 0", "raise it to 10"),
        (
            {"reserved_concurrency": 41, "pollers": Pollers(2, 4)},
            *("its queue makes up to 40", "raise it to 42, or lower max_concurrency"),
        ),
        (
            {"tables": (replace(SEATS, warm_throughput=WarmThroughput(12_000, 3_999)),)},
            *("the table 'seats' has warm_throughput=12000,3999", "raise both to that or more"),
        ),
        ({"mapping_metrics": 1}, "mapping_metrics=1", "give True or False"),
        ({"snap_start": "yes"}, "snap_start='yes'", "give True or False"),
    ],
    ids=str,
)
def test_a_fault_states_mistake_and_remedy(
    options: dict[str, Any], mistake: str, remedy: str
) -> None:
    (fault,) = faults(**options)
    assert mistake in fault
    assert remedy in fault


@pytest.mark.parametrize(
    "options",
    [
        {"pollers": Pollers(2, 2), "reserved_concurrency": 22},
        {"reserved_concurrency": 12},
        {"reserved_concurrency": 10, "batch_size": 1},
        {"tables": (replace(SEATS, warm_throughput=WarmThroughput(12_000, 4_000)),)},
    ],
    ids=str,
)
def test_sound_options_have_no_fault(options: dict[str, Any]) -> None:
    assert faults(**options) == []


def test_a_shared_table_has_one_warm_throughput() -> None:
    other = replace(
        TICKETS, name="refunds", tables=(replace(SEATS, warm_throughput=WARM),), folder=None
    )
    [fault] = [f for f in consumer_set_faults([TICKETS, other], CONFIG) if "warm" in f]
    assert fault.startswith("table 'seats' is declared with 2 different warm_throughput; declare")


@pytest.mark.parametrize("text", ["24000", "24000,", "24000,8000,1", "-1,8000", "a,b"])
def test_warm_throughput_of_the_dedup_table_is_read_from_the_context(text: str) -> None:
    node = cdk.App(context={"dedup_warm_throughput": text}).node
    [fault] = DeploymentConfig.from_context(node).faults
    assert "give read and write units a second, such as 24000,8000" in fault
    good = cdk.App(context={"dedup_warm_throughput": "24000,8000"}).node
    assert DeploymentConfig.from_context(good).dedup_warm_throughput == WARM


def test_a_dedup_table_is_not_cooled() -> None:
    config = DeploymentConfig(dedup_warm_throughput=WarmThroughput(11_999, 4_000))
    [fault] = deployment_faults(config)
    assert fault.startswith("dedup_warm_throughput=11999,4000")
