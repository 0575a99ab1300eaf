"""Two deployments in one account: no name and no identity of the one is taken by the other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from once.cdk import DeploymentConfig, assemble
from once.cdk.checks.deployment_options import reserved_sender
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import Cloud, Json, new_app


def templates(folder: Path, **context: Any) -> list[Json]:
    app = new_app(folder, **context)
    assemble(app, REGISTRY)
    stacks = app.synth().stacks
    return [stack.template for stack in stacks]


def physical_names(template: Json) -> Iterator[tuple[str, str]]:
    """Yield type and name of every resource with a fixed name."""
    for resource in template["Resources"].values():
        kind = resource["Type"]
        name = resource.get("Properties", {}).get(f"{kind.rpartition('::')[2]}Name")
        if isinstance(name, str):
            yield kind, name


def identities(stage: list[Json]) -> list[str]:
    resources = [each for template in stage for each in template["Resources"].values()]
    return [
        each["Properties"]["EmailIdentity"]
        for each in resources
        if each["Type"] == "AWS::SES::EmailIdentity"
    ]


def test_a_second_stage_takes_no_name_and_no_identity_of_the_first(
    cloud: Cloud, tmp_path: Path
) -> None:
    first = [cloud.state, cloud.service]
    second = templates(tmp_path, service="once-dev", create_email_identity=False)
    ours, theirs = (
        {name for template in stage for name in physical_names(template)}
        for stage in (first, second)
    )
    assert {kind for kind, _ in ours} >= {"AWS::SQS::Queue", "AWS::Lambda::Function"}
    assert ours & theirs == set()
    assert identities(first) == ["orders@example.com"]
    assert identities(second) == []


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
        ("orders@shop.de", False),
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
    folder = cloud.directory
    manifest = json.loads((folder / "manifest.json").read_text())["artifacts"]["once-service"]
    metadata = manifest.get("metadata") or json.loads(
        (folder / manifest["additionalMetadataFile"]).read_text()
    )
    found = [
        path
        for path, entries in metadata.items()
        if any("RFC 2606" in str(entry.get("data")) for entry in entries)
    ]
    assert found == ["/once-service/notifications"]
