"""Each declaration brings its own resources: counts of a growing service, and updates both ways."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from docs.tools.marked_block import replaced, write
from once.cdk import (
    STRIPE,
    Auth,
    CommandProps,
    ConsumerProps,
    DeploymentConfig,
    Endpoint,
    Source,
    TableProps,
    WebhookProps,
    run_app,
)
from once.cdk.dashboard import CHOSEN
from once.cdk.resting_cost import DASHBOARD, at_rest
from stacks.folders import ROOT
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Cloud, Json
from tests.stacks.test_updates import Templates, Variant, kept_and_replaced, synthesized

BOX = ConsumerProps("box", external=("box.asked",), tables=(TableProps("box", "box_id"),))
"""The line that `once new service` writes."""
LATER = replace(BOX, publishes_later=("box.made",))
PUBLISHES = replace(BOX, publishes=("box.made",))
TAKES = ConsumerProps("log", events=("box.made",))
SECOND = ConsumerProps("audit", external=("box.asked",))
HOOKS = WebhookProps(endpoints=(Endpoint("stripe", STRIPE, types=("paid",)),))
TILL = CommandProps(
    "till", (TableProps("box", "box_id"),), routes={"POST /boxes": "fill"}, auth=Auth.iam()
)
EVENT_BRIDGE = Source.event_bridge("shop", envelope_id=True)
SMALLEST = "smallest"
VARIANTS = {
    SMALLEST: Variant((BOX,), None),
    "publishes": Variant((PUBLISHES,), None),
    "publishes later": Variant((LATER,), None),
    "takes what it publishes": Variant((PUBLISHES, TAKES), None),
    "second consumer": Variant((BOX, SECOND), None),
    "webhook": Variant((BOX,), HOOKS),
    "commands": Variant((BOX,), None, (TILL,)),
    "renaming": Variant((BOX, replace(BOX, name="crate", renamed_from="box")), None),
    "source": Variant((replace(BOX, source=EVENT_BRIDGE),), None),
    "every option": Variant((PUBLISHES, TAKES, SECOND), HOOKS, (TILL,)),
}
ALARM = "AWS::CloudWatch::Alarm"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
FUNCTION, VERSION, QUEUE = "AWS::Lambda::Function", "AWS::Lambda::Version", "AWS::SQS::Queue"
TOPIC, BUCKET, KEY = "AWS::SNS::Topic", "AWS::S3::Bucket", "AWS::KMS::Key"
COUNTED = (FUNCTION, QUEUE, TOPIC, BUCKET, KEY)


@cache
def deployed(name: str) -> Templates:
    with TemporaryDirectory() as folder:
        return synthesized(Path(folder), VARIANTS[name])


def resources(name: str) -> Iterator[Json]:
    for _, template in deployed(name):
        yield from template["Resources"].values()


COUNTS = {
    # Functions, queues, topics with that of alarms, buckets, keys
    SMALLEST: (1, 3, 2, 0, 0),
    "publishes": (2, 4, 3, 1, 0),  # the relay
    "publishes later": (2, 4, 3, 1, 0),
    "takes what it publishes": (3, 7, 3, 1, 0),
    "second consumer": (3, 8, 2, 0, 0),  # and the sweep
    "webhook": (3, 4, 3, 1, 0),
    "commands": (2, 3, 2, 0, 0),
    "renaming": (2, 6, 2, 0, 0),
    "source": (1, 3, 1, 0, 0),
    "every option": (7, 12, 3, 1, 0),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_each_declaration_brings_its_own_parts(name: str) -> None:
    kinds = Counter(each["Type"] for each in resources(name))
    assert tuple(kinds[each] for each in COUNTED) == COUNTS[name]


def test_the_smallest_service_is_small() -> None:
    kinds = Counter(each["Type"] for each in resources(SMALLEST))
    assert kinds.total() <= 30
    assert kinds[ALARM] <= 6
    assert cost_at_rest(SMALLEST) <= 1.50


def cost_at_rest(name: str) -> float:
    """Return the cost without the dashboard, in USD a month."""
    bill = at_rest(*(template for _, template in deployed(name)))
    return sum(line.cost for line in bill) - DASHBOARD


DECLARED = {
    SMALLEST: "the smallest service",
    "publishes": "`publishes=`",
    "publishes later": "`publishes_later=`",
    "takes what it publishes": "`publishes=`, and a line that takes it",
    "second consumer": "a second line for the same events",
    "webhook": "`webhooks=` with an endpoint",
    "commands": "`commands=` with a route",
}


def declared() -> str:
    """Return the table of docs/architecture.md: counts and cost at rest, without the dashboard."""
    kinds = {"resources": "", "functions": FUNCTION, "queues": QUEUE, "alarms": ALARM}
    lines = [f"| | {' | '.join(kinds)} | USD |", f"|---|{'---:|' * (len(kinds) + 1)}"]
    for name, shown in DECLARED.items():
        found = [each["Type"] for each in resources(name)]
        counts = [found.count(kind) if kind else len(found) for kind in kinds.values()]
        lines.append(f"| {shown} | {' | '.join(map(str, counts))} | {cost_at_rest(name):.2f} |")
    return "\n".join(lines)


def test_the_page_shows_what_each_declaration_makes() -> None:
    text = ARCHITECTURE.read_text()
    assert text == replaced(text, "declared", declared()), "run `make redraw`"


def test_the_shop_has_no_key_and_thirty_alarms_at_most(cloud: Cloud) -> None:
    assert cloud.every(KEY) == {}
    assert len(cloud.every(ALARM)) <= 30
    assert sum(line.cost for line in at_rest(cloud.state, cloud.service)) <= 9.80


@pytest.mark.parametrize("name", [each for each in VARIANTS if each != SMALLEST])
@pytest.mark.parametrize("direction", ["grows", "shrinks"])
def test_an_update_replaces_nothing_and_leaves_no_name_that_is_taken(
    name: str, direction: str
) -> None:
    before, after = deployed(SMALLEST), deployed(name)
    if direction == "shrinks":
        before, after = after, before
    assert kept_and_replaced(before, after) == []
    assert "Fn::ImportValue" not in json.dumps([template for _, template in (*before, *after)])
    # What stays behind when a declaration leaves has no name that it needs to come back; the queues
    # of a consumer do, and the runbook deletes them.
    lines = {line.name for line in VARIANTS[name].lines} - {BOX.name}
    for (_, old), (_, new) in zip(before, after, strict=True):
        for logical_id in old["Resources"].keys() - new["Resources"].keys():
            gone = old["Resources"][logical_id]
            named = {key for key in gone.get("Properties", {}) if key.endswith("Name")}
            stays = gone.get("DeletionPolicy", "Delete") != "Delete"
            assert not (named and stays) or logical_id.startswith(tuple(lines)), logical_id


def test_a_sole_consumer_takes_all_events_and_one_of_several_its_own() -> None:
    def filters(name: str) -> list[object]:
        found = [each for each in resources(name) if each["Type"] == "AWS::SNS::Subscription"]
        return [each["Properties"].get("FilterPolicy") for each in found]

    assert filters(SMALLEST) == [None]
    assert filters("renaming") == [None, None]  # both lines are one consumer
    assert [each for each in filters("second consumer") if each] == [{"type": ["box.asked"]}] * 2


def test_the_dashboard_lets_a_reader_choose_among_several_consumers() -> None:
    for name, title in {SMALLEST: BOX.name, "second consumer": CHOSEN}.items():
        [board] = (each for each in resources(name) if each["Type"] == "AWS::CloudWatch::Dashboard")
        text = json.dumps(board)
        assert f"{title}: outcomes" in text
        assert (CHOSEN in text) is (title == CHOSEN)


def test_a_filter_waits_for_the_sweep_which_keeps_what_it_drops() -> None:
    _, service = deployed("second consumer")[-1]
    found = {
        logical_id: each
        for logical_id, each in service["Resources"].items()
        if each["Type"] == "AWS::SNS::Subscription"
    }
    sweep = "unroutedSweepIngressSubscription"
    assert "DependsOn" in found[sweep]  # the queue's policy
    for logical_id in found.keys() - {sweep}:
        assert sweep in found[logical_id]["DependsOn"]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_template_is_readable(name: str) -> None:
    lines = ("box", "crate", "log", "audit", "till", "webhooks", "outboxrelay", "unrouted")
    for _, template in deployed(name):
        for logical_id, each in template["Resources"].items():
            owner = each["Metadata"]["aws:cdk:path"].split("/")[1].replace("_", "")
            assert logical_id.startswith(owner) or owner not in lines
            # A version's id changes with its content, so that a new one is made.
            assert each["Type"] == VERSION or not re.search("[0-9A-F]{8}", logical_id)
            if each["Type"] in {FUNCTION, ALARM}:
                told = {*each["Properties"]} & {"Description", "AlarmDescription"}
                assert told, logical_id
        for key, output in template["Outputs"].items():
            assert "Description" in output or key.startswith("Publish")


def test_synthesis_prints_what_it_makes_and_its_cost_at_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = registry_in(tmp_path, lines_in(tmp_path / "functions", VARIANTS[SMALLEST].lines))
    run_app(registry, DeploymentConfig(service="shop"), arguments=[])
    counts, cost, dashboards = capsys.readouterr().err.splitlines()
    made = [*resources(SMALLEST)]
    assert counts.startswith(
        f"shop: {len(made)} resources: 2 tables, 1 function, 3 queues, 2 topics, "
    )
    assert cost.startswith(f"at rest {cost_at_rest(SMALLEST):.2f} USD a month = ")
    assert dashboards.startswith(f"and {DASHBOARD:.2f} for dashboards, of which an account has")


if __name__ == "__main__":  # `make redraw`
    write(ARCHITECTURE, "declared", declared())
