"""Two deployments in one account: no name and no identity of the one is taken by the other."""

import json
from collections.abc import Iterator

import pytest

from once.cdk import DeploymentConfig
from once.cdk.checks.deployment_options import reserved_sender
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud
from tests.stacks.full_service import Stacks

INSIDE = {"AWS::ApiGatewayV2::Stage", "AWS::IAM::Policy"}
"""Types whose names are unique in the resource that holds them, and not in the account."""


def names(stacks: Stacks, stage: str) -> Iterator[tuple[str, str]]:
    """Yield type and name of every resource with a fixed name, or with an identity."""
    for stack in stacks.of(stage):
        for resource in stack.template["Resources"].values():
            kind, properties = resource["Type"], resource.get("Properties", {})
            for key in (f"{kind.rpartition('::')[2]}Name", "EmailIdentity"):
                if kind not in INSIDE and isinstance(properties.get(key), str):
                    yield kind, properties[key]


def test_a_second_stage_takes_no_name_and_no_identity_of_the_first(stacks: Stacks) -> None:
    ours, theirs = set(names(stacks, "prod")), set(names(stacks, "test"))
    assert {kind for kind, _ in ours} >= {"AWS::SQS::Queue", "AWS::Lambda::Function"}
    assert ("AWS::SES::EmailIdentity", "office@theatre.de") in ours
    assert ours & theirs == set()


NOTIFICATIONS = next(line for line in CONSUMERS if line.sends_email)
ORDERS = next(line for line in CONSUMERS if not line.sends_email)


@pytest.mark.parametrize(
    ("sender", "refused"),
    [
        ("orders@example.com", True),
        ("orders@shop.example.org", True),
        ("orders@EXAMPLE.NET", True),
        ("orders@shop.test", True),
        ("orders@my-example.com", False),
        ("orders@example.company.com", False),
    ],
)
def test_a_sender_that_ses_cannot_verify_is_a_warning(sender: str, *, refused: bool) -> None:
    config = DeploymentConfig(email_sender=sender)
    warning = reserved_sender(NOTIFICATIONS, config)
    assert bool(warning) is refused
    assert warning is None or "-c email_sender=" in warning
    assert reserved_sender(ORDERS, config) is None
    assert reserved_sender(NOTIFICATIONS, DeploymentConfig(email_sender=sender, local=True)) is None


def test_the_warning_appears_at_the_consumer_that_sends_email(cloud: Cloud) -> None:
    metadata = json.loads((cloud.directory / "once-service.metadata.json").read_text())
    found = [path for path, entries in metadata.items() if "RFC 2606" in json.dumps(entries)]
    assert found == ["/once-service/notifications"]
