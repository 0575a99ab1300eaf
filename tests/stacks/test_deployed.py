"""The names that were deployed: recorded after a deployment, and missed at synthesis."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from once.cdk import (
    ConsumerProps,
    DeployedNames,
    DeploymentConfig,
    Rollout,
    StateMachineProps,
    TableProps,
    missing_name_faults,
    output_key,
)
from once.cdk.app.assembly import record_names, registry_faults, run_app
from stacks.consumers import CONSUMERS as REGISTERED
from stacks.registry import REGISTRY
from tests.stacks.cloud import CONTEXT, SHOP

CONSUMERS = tuple(line for line in REGISTERED if line.name in SHOP)
"""Without those that were added since: they are not in the file of deployed names."""

INVENTORY, PAYMENTS = (
    next(line for line in CONSUMERS if line.name == name) for name in ("inventory", "payments")
)
REST = tuple(line for line in CONSUMERS if line is not INVENTORY)
DEPLOYED = REGISTRY.deployed
PLACE = REGISTRY.folder_of(INVENTORY)
WAREHOUSE = replace(INVENTORY, name="warehouse", renamed_from="inventory", folder=PLACE)
DEPOT = replace(WAREHOUSE, name="depot", renamed_from=None)
WITHOUT_LINE = "consumer 'inventory' was deployed and has no line"


def faults(
    consumers: Sequence[ConsumerProps], deployed: Path = DEPLOYED, **options: Any
) -> list[str]:
    config = DeploymentConfig(parameters=CONTEXT, **options)
    registry = replace(REGISTRY, consumers=consumers, deployed=deployed)
    found = registry_faults(registry, config)
    return [fault for fault in found if not fault.startswith("functions/")]


def test_the_shop_is_recorded_and_its_registry_has_every_recorded_name() -> None:
    assert DeployedNames.read(DEPLOYED, "once").consumers
    assert registry_faults(REGISTRY, DeploymentConfig(parameters=CONTEXT)) == []


@pytest.mark.parametrize(
    ("consumers", "starts"),
    [
        ([*REST, DEPOT], [WITHOUT_LINE]),
        ([*REST, WAREHOUSE], [WITHOUT_LINE]),
        ([*CONSUMERS, WAREHOUSE], []),
        (
            [*REST, replace(INVENTORY, retiring=True), WAREHOUSE],
            ["consumer 'inventory' retires before 'warehouse', its new name, was deployed"],
        ),
        ([*REST, replace(INVENTORY, retiring=True)], []),
        (
            [*REST, replace(INVENTORY, renamed_from="stock")],
            ["consumer 'inventory' was deployed with the identity 'inventory', with which"],
        ),
        (
            [*REST, replace(INVENTORY, fifo=True, ordered_by="order_id")],
            ["consumer 'inventory' was deployed with a standard queue, which cannot become a FIFO"],
        ),
        ([*CONSUMERS, replace(WAREHOUSE, fifo=True, ordered_by="order_id")], []),
        (
            [*REST, replace(INVENTORY, tables=(TableProps("reservations", "order_id"),))],
            ["table 'stock' was deployed and no line has it"],
        ),
        (
            [
                *(line for line in CONSUMERS if line is not PAYMENTS),
                replace(PAYMENTS, secrets=("paypal_key",)),
            ],
            ["secret 'stripe_key' was deployed and no line has it"],
        ),
    ],
    ids=[
        *("renamed", "renamed in one step", "renamed, both lines", "retired too early"),
        *("removed, first step", "another identity", "another kind of queue"),
        *("another kind of queue, both lines", "a table", "a secret"),
    ],
)
def test_h1_a_registry_without_a_deployed_name_is_refused(
    consumers: Sequence[ConsumerProps], starts: list[str]
) -> None:
    found = faults(consumers)
    assert [fault[: len(start)] for fault, start in zip(found, starts, strict=True)] == starts
    assert all(fault.endswith("(deployed.json)") for fault in found)


def test_a_recorded_fifo_queue_cannot_become_a_standard_one(tmp_path: Path) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    plan = replace(INVENTORY, fifo=True, ordered_by="order_id")
    DeployedNames.of([plan]).record(file, "once")
    [fault] = missing_name_faults(DeployedNames.read(file, "once"), [INVENTORY])
    assert fault.startswith("consumer 'inventory' was deployed with a FIFO queue, which cannot")
    assert "renamed_from='inventory' and fifo=False" in fault
    assert [*missing_name_faults(DeployedNames.read(file, "once"), [plan])] == []


def test_a_type_is_published_later_until_its_recorded_name_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    line = ConsumerProps("desk", publishes_later=("seat.expired",))
    added = DeployedNames.of([line]).record(file, "once")
    assert added == ["desk", "seat.expired"]
    deployed = DeployedNames.read(file, "once")
    assert [*missing_name_faults(deployed, [line])] == []
    now = replace(line, publishes_later=())  # still among publishes=
    [fault] = missing_name_faults(deployed, [now])
    assert fault.startswith("'seat.expired' was published later and no line has it in publishes_")


@pytest.mark.parametrize("key", [("ticket_id", "kind"), "kind"])
def test_the_key_of_a_deployed_table_cannot_change(
    tmp_path: Path, key: str | tuple[str, str]
) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    line = ConsumerProps("desk", tables=(TableProps("tickets", "ticket_id"),))
    DeployedNames.of([line]).record(file, "once")
    deployed = DeployedNames.read(file, "once")
    assert [*missing_name_faults(deployed, [line])] == []
    changed = replace(line, tables=(TableProps("tickets", key),))
    [fault] = missing_name_faults(deployed, [changed])
    assert fault.startswith(
        f"table 'tickets' was deployed with the key 'ticket_id' and has {key!r} now"
    )


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"tables": ()}, "the table 'payments'"),
        ({"secrets": ()}, "the secret 'stripe_key'"),
        ({"publishes": ("payment.captured",)}, "the published type 'payment.refused'"),
        ({"starts": ()}, "the workflow 'ship'"),
        ({"sends_email": False}, "sends_email"),
        ({"claim_check_mb": 0}, "claim_check_mb"),
        ({"memory_mb": 512}, None),
    ],
)
def test_a_part_leaves_a_line_with_a_gradual_rollout_in_a_later_deployment(
    tmp_path: Path, change: dict[str, Any], lost: str | None
) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    line = ConsumerProps(
        "payments",
        external=("order.placed",),
        publishes=("payment.captured", "payment.refused"),
        tables=(TableProps("payments", "id"),),
        secrets=("stripe_key",),
        starts=(StateMachineProps("ship", "arn:aws:states:eu-west-1:1:stateMachine:ship"),),
        sends_email=True,
        claim_check_mb=1,
        rollout=Rollout.CANARY_10_PERCENT_5_MINUTES,
    )
    DeployedNames.of([line]).record(file, "once")
    changed = replace(line, **change)

    def found(props: ConsumerProps, **options: Any) -> list[str]:
        every = faults([props], file, **options)
        return [fault for fault in every if "which its deployed code may use" in fault]

    assert [lost is not None and f" loses {lost}, " in fault for fault in found(changed)] == (
        [True] if lost else []
    )
    assert found(replace(changed, rollout=Rollout.ALL_AT_ONCE)) == []
    assert found(changed, gradual_rollout=False) == []
    # Recorded without it, once the code does not use it any more.
    DeployedNames.of([changed]).record(file, "once")
    assert found(changed) == []


def test_the_fault_of_a_rename_names_both_lines_and_the_entry_of_the_runbook() -> None:
    [fault] = faults([*REST, DEPOT])
    assert "add a second line, 'depot', with renamed_from='inventory'" in fault
    assert "`once explain rename-or-remove-a-consumer`" in fault


def test_an_embedded_deployment_and_another_service_miss_nothing() -> None:
    assert faults([*REST, DEPOT], local=True) == []
    assert DeployedNames.read(DEPLOYED, "staging") == DeployedNames()


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"once": {"consumer": {}}}', '{"once": {"tables": ["stock"]}}']
)
def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "deployed.json"
    if text is not None:
        file.write_text(text)
    [fault] = faults(CONSUMERS, file)
    assert fault.startswith(f"{file} cannot be read (")
    assert "restore it from version control, or write {} if nothing was ever deployed" in fault


def outputs(service: str) -> dict[str, dict[str, str]]:
    keys = [f"Function{output_key(line.name)}" for line in REGISTERED]
    return {f"{service}-state": {}, f"{service}-service": dict.fromkeys(keys, "name")}


def test_a_deployment_adds_its_names_and_takes_none_out(tmp_path: Path) -> None:
    file = tmp_path / "deployed.json"
    file.write_text('{"once": {"consumers": {"former": "former"}}, "staging": {}}')
    registry = replace(REGISTRY, deployed=file)
    added = record_names(registry, outputs("once"))
    assert "inventory" in added
    assert "former" not in added
    names = DeployedNames.read(file, "once")
    assert names.consumers.keys() == {"former", *DeployedNames.of(REGISTERED).consumers}
    assert DeployedNames.read(file, "staging") == DeployedNames()
    assert record_names(registry, outputs("staging")) == added
    before = file.read_bytes()
    assert record_names(registry, outputs("staging")) == []
    assert file.read_bytes() == before


def test_a_stack_that_is_deployed_alone_adds_its_own_consumers(tmp_path: Path) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{}")
    found = {"once-service-2": {"FunctionInventory": "once-inventory"}}
    record_names(replace(REGISTRY, deployed=file), found)
    names = DeployedNames.read(file, "once")
    assert (names.consumers, names.stacks) == ({"inventory": "inventory"}, {"inventory": 2})


def test_a_malformed_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "deployed.json"
    file.write_text("{")
    (tmp_path / "outputs.json").write_text(json.dumps(outputs("once")))
    arguments = ["record", str(tmp_path / "outputs.json")]
    with pytest.raises(SystemExit, match=r"restore it from version control"):
        run_app(replace(REGISTRY, deployed=file), arguments=arguments)
    assert file.read_text() == "{"
    with pytest.raises(SystemExit, match=r"missing\.json cannot be read .*outputs-file"):
        run_app(replace(REGISTRY, deployed=file), arguments=["record", "missing.json"])
