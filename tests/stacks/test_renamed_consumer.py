"""A registry with a consumer that is being renamed, and with one that is being removed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk import assemble
from once.cdk.topics import NO_EVENT
from once.names import EVENT_TYPE, RELAY, UNROUTED
from once.settings import RelaySettings, Settings, SweepSettings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import Cloud, environment, new_app, statements

INVENTORY, PAYMENTS = (
    next(line for line in CONSUMERS if line.name == name) for name in ("inventory", "payments")
)
PLACE = REGISTRY.folder_of(INVENTORY)
OLD = replace(INVENTORY, retiring=True)
NEW = replace(INVENTORY, name="warehouse", renamed_from="inventory", folder=PLACE)
REMOVED = replace(PAYMENTS, retiring=True)
OTHERS = tuple(line for line in CONSUMERS if line not in (INVENTORY, PAYMENTS))
GOLDEN = Path(__file__).with_name("logical_ids.json")


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    folder = tmp_path_factory.mktemp("changing")
    deployed = folder / "deployed.json"
    deployed.write_text("{}")
    app = new_app(folder / "out", local=False)
    assemble(app, replace(REGISTRY, consumers=(*OTHERS, OLD, NEW, REMOVED), deployed=deployed))
    app.synth()
    return Cloud(folder / "out")


def test_the_new_line_adds_resources_and_replaces_none(changing: Cloud) -> None:
    kept = json.loads(GOLDEN.read_text())
    for stack, template in (("once-state", changing.state), ("once-service", changing.service)):
        assert kept[stack].keys() <= template["Resources"].keys()
    for part in ("Queue", "Isolation", "DeadLetters"):
        assert changing.of("warehouse", part)["QueueName"].startswith("once-warehouse")


@pytest.mark.parametrize("line", ["inventory", "warehouse"])
def test_h1_both_lines_have_the_first_name_in_keys_and_events(changing: Cloud, line: str) -> None:
    settings = Settings.from_env(environment(changing, line))
    assert settings.consumer == "inventory"
    leading = [
        statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in statements(changing, line)
        if statement["Sid"] in ("WriteOwnRecordsInTransactions", "ReadOwnRecords")
    ]
    assert leading == [["inventory#*"], ["inventory#*"]]
    assert changing.service["Outputs"][f"Identity{line.capitalize()}"]["Value"] == "inventory"


def test_relay_and_subscribers_know_one_publisher(changing: Cloud) -> None:
    relay = RelaySettings.from_env(environment(changing, RELAY))
    assert relay.publishes["inventory"] == INVENTORY.publishes
    assert "warehouse" not in relay.publishes
    payments = Settings.from_env(environment(changing, "payments"))
    assert payments.sources == {"stock.reserved": ("/once/inventory",)}


@pytest.mark.parametrize("line", ["inventory", "payments"])
def test_the_subscriptions_of_a_retiring_line_stay_and_select_nothing(
    changing: Cloud, line: str
) -> None:
    found = changing.subscriptions(line, "Queue").values()
    assert [each["FilterPolicy"] for each in found] == [{"type": [NO_EVENT]}] * len(found)
    assert found
    assert changing.of(line, "Mapping")["EventSourceArn"] == changing.arn(line, "Queue")


def test_no_event_is_no_event_type() -> None:
    assert not EVENT_TYPE.fullmatch(NO_EVENT)


def test_events_of_a_retiring_line_are_not_routed_to_it(changing: Cloud) -> None:
    settings = SweepSettings.from_env(environment(changing, UNROUTED))
    taken = {event for types in settings.routes.values() for event in types}
    assert taken == {event for line in (*OTHERS, NEW) for event in line.event_types}
    assert "stock.reserved" not in taken
