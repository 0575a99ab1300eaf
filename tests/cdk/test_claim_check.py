"""Claim check in templates: the bucket, the rights of takers and publishers, and faults."""

from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from once.cdk import (
    ClaimBucket,
    ConsumerProps,
    DedupTable,
    DeploymentConfig,
    IdempotentConsumer,
    SynthError,
)
from once.cdk.permissions import ClaimAccess
from once.settings import Settings
from stacks.folders import ROOT
from tests.stacks.cloud import flat, listed, resources_of

FOLDER = ROOT / "tests" / "e2e" / "functions"
ARCHIVE = ConsumerProps(
    "archive",
    external=("scan.sent",),
    events=("scan.done", "github.push"),
    claim_check_mb=5,
    batch_size=2,
    folder=FOLDER / "archive",
)
SCANNER = ConsumerProps(
    "scanner",
    external=("scan.asked",),
    publishes=("scan.done",),
    claim_check_mb=5,
    batch_size=2,
)
SOURCES = {"scan.done": ("/once/scanner", "/once/copier"), "github.push": ("/once/scanner",)}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> cdk.Stack:
    """A stack with a bucket and a consumer that reads it."""
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path_factory.mktemp("archive"))), "archive")
    IdempotentConsumer(
        stack,
        ARCHIVE,
        dedup_table=DedupTable(stack, "dedup"),
        sources=SOURCES,
        claims=ClaimBucket(stack, "claims"),
    )
    return stack


def test_the_bucket_is_closed_and_its_objects_outlive_every_message(stack: cdk.Stack) -> None:
    [bucket] = Template.from_stack(stack).find_resources("AWS::S3::Bucket").values()
    kept = (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"])
    assert kept == ("RetainExceptOnCreate", "Retain")
    properties = bucket["Properties"]
    assert all(properties["PublicAccessBlockConfiguration"].values())
    assert "BucketEncryption" in properties
    [rule] = properties["LifecycleConfiguration"]["Rules"]
    assert rule["Status"] == "Enabled"
    assert "Prefix" not in rule
    assert rule["ExpirationInDays"] == 2 * DeploymentConfig().dedup_window_days
    [policy] = resources_of(stack, "AWS::S3::BucketPolicy")
    [deny] = policy["PolicyDocument"]["Statement"]
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_taker_reads_the_objects_of_its_publishers_and_of_producers(stack: cdk.Stack) -> None:
    [role] = resources_of(stack, "AWS::IAM::Role")
    [policy] = role["Policies"]
    allowed = {each["Sid"]: each for each in policy["PolicyDocument"]["Statement"]}
    patterns = [flat(arn).partition("/")[2] for arn in listed(allowed["ReadClaims"]["Resource"])]
    assert patterns == ["producers/*", "consumers/copier/*", "consumers/scanner/*", ""]
    assert allowed["ReadClaims"]["Action"] == ["s3:GetObject", "s3:ListBucket"]
    assert "StoreClaims" not in allowed


def test_a_publisher_writes_under_its_own_identity_only() -> None:
    bucket = ClaimBucket(cdk.Stack(), "claims")
    renamed = replace(SCANNER, name="copier", renamed_from="scanner", external=())
    access = ClaimAccess.of(renamed, bucket, {})
    assert access is not None
    assert (access.reads, access.writes) == ((), ("consumers/scanner/*",))
    assert access.read_statements() == []
    [statement] = access.write_statements()
    assert statement.actions == ["s3:PutObject"]


def test_the_function_knows_the_bucket_and_its_largest_event(stack: cdk.Stack) -> None:
    [function] = resources_of(stack, "AWS::Lambda::Function")
    variables = {n: flat(v) for n, v in function["Environment"]["Variables"].items()}
    settings = Settings.from_env(variables)
    assert settings.max_body_bytes == 5 * 1024 * 1024
    assert str(settings.claim_bucket).startswith("<claims")


def test_a_claim_check_without_a_bucket_is_refused(tmp_path: Path) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "archive")
    with pytest.raises(SynthError, match="give claims= of IdempotentConsumer a ClaimBucket"):
        IdempotentConsumer(stack, ARCHIVE, dedup_table=DedupTable(stack, "dedup"), sources=SOURCES)
