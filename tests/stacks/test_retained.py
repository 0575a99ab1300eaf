"""Resources that hold data or messages: each keeps its logical id, and none is deleted."""

import json

import pytest

from stacks.folders import ROOT
from tests.stacks import logical_ids
from tests.stacks.cloud import Cloud
from tests.stacks.logical_ids import GOLDEN, resources

MESSAGES = {
    *("AWS::SQS::Queue", "AWS::SQS::QueuePolicy"),
    *("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::SNS::Subscription"),
}
CHANGED = (
    f"A logical id of {GOLDEN.relative_to(ROOT)} is gone. CloudFormation would leave the resource "
    "behind, with its data, and create an empty one. Give the construct its earlier scope and id "
    "back, or override its logical id. Change the file only if the resource is removed on purpose, "
    "after its messages have been processed and its data has been moved:\n"
)
ADDED = (
    f"New resources with data, which {GOLDEN.relative_to(ROOT)} does not pin: run "
    "`.venv/bin/python -m tests.golden`, which adds them:\n"
)


def test_what_holds_data_keeps_its_logical_id(cloud: Cloud) -> None:
    kept = logical_ids.kept()
    for stack, found in logical_ids.found(cloud).items():
        gone = kept[stack].items() - found.items()
        assert not gone, CHANGED + json.dumps(dict(sorted(gone)), indent=2)
        added = found.items() - kept[stack].items()
        assert not added, ADDED + json.dumps({stack: dict(sorted(added))}, indent=2)


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_what_holds_or_delivers_messages_outlives_the_stack(cloud: Cloud, kind: str) -> None:
    found = resources(cloud.service, {kind}).items()
    # The topic of alarms holds none: an alarm that still lasts is seen in CloudWatch.
    policies = {
        key: (each.get("DeletionPolicy"), each.get("UpdateReplacePolicy"))
        for key, each in found
        if not key.startswith("Alarms")
    }
    assert policies
    assert policies == dict.fromkeys(policies, ("RetainExceptOnCreate", "Retain"))


def test_nothing_of_the_embedded_service_outlives_it(local_cloud: Cloud) -> None:
    found = resources(local_cloud.service, MESSAGES).values()
    assert {each.get("DeletionPolicy", "Delete") for each in found} == {"Delete"}
