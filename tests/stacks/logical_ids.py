"""Logical ids of the resources that hold data or messages: those of the templates, and the kept."""

import json
from pathlib import Path

from tests.stacks.cloud import Cloud, Json

GOLDEN = Path(__file__).with_name("logical_ids.json")
PINNED = {
    *("AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::DynamoDB::Table"),
    *("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SecretsManager::Secret"),
}

Ids = dict[str, dict[str, str]]
"""Stack name → logical id → resource type."""


def resources(template: Json, types: set[str]) -> dict[str, Json]:
    return {key: each for key, each in template["Resources"].items() if each["Type"] in types}


def found(cloud: Cloud) -> Ids:
    """Return the ids in the templates."""
    templates = {"once-state": cloud.state, "once-service": cloud.service}
    return {
        stack: {key: each["Type"] for key, each in resources(template, PINNED).items()}
        for stack, template in templates.items()
    }


def kept() -> Ids:
    """Return the ids that a deployment has."""
    ids: Ids = json.loads(GOLDEN.read_text())
    return ids
