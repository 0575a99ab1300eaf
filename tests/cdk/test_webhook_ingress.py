"""An ingress behind an HTTP API, with large bodies and an ordered type."""

from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from once.cdk import (
    GITHUB,
    CaptureTable,
    ClaimBucket,
    ConsumerProps,
    DedupTable,
    Endpoint,
    OutboxRelay,
    SynthError,
    Topics,
    WebhookIngress,
    WebhookProps,
    published_types,
)
from once.webhooks.endpoint import WebhookSettings
from stacks.folders import FUNCTIONS
from tests.stacks.cloud import Json, flat, listed

PROPS = WebhookProps(
    endpoints=(Endpoint("github", GITHUB, types=("push",)),),
    http_api=True,
    capture_days=20,
    folder=FUNCTIONS / "webhooks",
)
BUILDS = ConsumerProps(
    "builds",
    events=("github.push",),
    fifo=True,
    ordered_by="repository.id",
    claim_check_mb=4,
    batch_size=2,
)


@pytest.fixture
def stack(tmp_path: Path) -> cdk.Stack:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "builds")
    dedup = DedupTable(stack, "dedup")
    topics = Topics.make(stack, consumers=[BUILDS])
    publishes = published_types([BUILDS], PROPS)
    relay = OutboxRelay(stack, topics=topics, publishes=publishes, dedup_table=dedup)
    WebhookIngress(
        stack,
        PROPS,
        dedup_table=dedup,
        captures=CaptureTable(stack, "captures"),
        secrets={"github": "arn:secret", "other": "arn:other"},
        relay=relay,
        claims=ClaimBucket(stack, "claims", webhooks=PROPS),
    )
    return stack


def properties(stack: cdk.Stack, kind: str, start: str = "") -> Json:
    found = Template.from_stack(stack).find_resources(kind)
    one: Json
    (one,) = (each["Properties"] for key, each in found.items() if key.startswith(start))
    return one


def test_the_whole_ingress(stack: cdk.Stack) -> None:
    environment = properties(stack, "AWS::Lambda::Function", "webhooks")["Environment"]
    variables = {name: flat(value) for name, value in environment["Variables"].items()}
    settings = WebhookSettings.from_env(variables)
    # Group and order of its types, as its consumers declare them.
    assert settings.groups == {"github.push": "repository.id"}
    assert settings.ordered_types == ("github.push",)
    assert settings.max_body_bytes == GITHUB.body_bytes
    assert settings.claim_bucket
    assert settings.secrets == {"github": "arn:secret"}

    (policy,) = properties(stack, "AWS::IAM::Role", "webhooks")["Policies"]
    (stores,) = (s for s in policy["PolicyDocument"]["Statement"] if s["Sid"] == "StoreClaims")
    assert stores["Action"] == "s3:PutObject"
    patterns = [flat(arn).partition("/")[2] for arn in listed(stores["Resource"])]
    assert patterns == ["webhooks/*", "consumers/webhooks/*"]

    rules = properties(stack, "AWS::S3::Bucket", "claims")["LifecycleConfiguration"]["Rules"]
    kept = {rule.get("Prefix", ""): rule["ExpirationInDays"] for rule in rules}
    assert kept == {"": 90, "webhooks/": 20}


def test_the_http_api_takes_any_path_with_a_throttle_and_a_log(stack: cdk.Stack) -> None:
    assert properties(stack, "AWS::ApiGatewayV2::Route")["RouteKey"] == "$default"
    assert properties(stack, "AWS::ApiGatewayV2::Integration")["PayloadFormatVersion"] == "2.0"
    stage = properties(stack, "AWS::ApiGatewayV2::Stage")
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": 500,
        "ThrottlingRateLimit": 500,
    }
    form = stage["AccessLogSettings"]["Format"]
    assert '"status":"$context.status"' in form
    assert "querystring" not in form.lower()
    Template.from_stack(stack).resource_count_is("AWS::Lambda::Url", 0)


def test_faults_of_the_parts_end_the_synthesis_together(stack: cdk.Stack) -> None:
    with pytest.raises(SynthError) as caught:
        WebhookIngress(
            stack,
            PROPS,
            dedup_table=DedupTable(stack, "another"),
            captures=CaptureTable(stack, "more"),
            secrets={},
        )
    assert len(caught.value.faults) == 3
