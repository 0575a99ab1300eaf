"""A service in two stages: a plain one, and one with every option of an account."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import aws_cdk as cdk
import pytest
from aws_cdk import App
from aws_cdk import aws_sqs as sqs
from aws_cdk.cx_api import CloudAssembly

from once.cdk import (
    GITHUB,
    Auth,
    CommandProps,
    ConsumerProps,
    CustomerKey,
    CustomerKeys,
    Dedup,
    DeploymentConfig,
    DurableFunctionProps,
    Endpoint,
    ExistingQueue,
    ExistingTable,
    Network,
    Pollers,
    Registry,
    Rollout,
    Source,
    Stage,
    StateMachineProps,
    TableProps,
    WarmThroughput,
    WebhookProps,
    assemble,
)
from once.cdk.deployment_options import DEDUP
from tests.stacks.booking_office import LINES, commands_in, lines_in, registry_in
from tests.stacks.cloud import Json, new_app, without_packages

ACCOUNT, REGION = "111122223333", "eu-west-1"
KEY = CustomerKey(
    f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    allows=("cloudwatch", "events", "logs", "s3", "sns"),
)
KEYS = f"arn:aws:kms:{REGION}:{ACCOUNT}:key"
TABLE = ExistingTable(
    f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/halls",
    f"{KEYS}/56780000-12ab-34cd-56ef-1234567890ab",
)
RECORDS = ExistingTable(
    f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/restored",
    KEY.arn,
    f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/restored/stream/2026-11-22T08:00:00.000",
)
QUEUE = ExistingQueue(
    f"arn:aws:sqs:{REGION}:{ACCOUNT}:refunds",
    f"{KEYS}/9abc0000-12ab-34cd-56ef-1234567890ab",
)
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
LAYER = f"arn:aws:lambda:{REGION}:{ACCOUNT}:layer:agent:7"
NETWORK = Network(
    subnets=("subnet-0a1b2c3d", "subnet-4e5f6a7b"),
    security_groups=("sg-0a1b2c3d",),
    endpoints=(
        *("dynamodb", "email", "lambda", "s3", "secretsmanager", "scheduler", "sns", "sqs", "ssm"),
        "states",
    ),
)
OPTIONS = DeploymentConfig(
    service="theatre-prod",
    email_sender="office@theatre.de",
    ingress_publishers=("s3", "events"),
    tags={"team": "tickets", "stage": "prod"},
    network=NETWORK,
    keys=CustomerKeys.one(KEY),
    permissions_boundary=BOUNDARY,
    layers=(LAYER,),
    otlp_endpoint="http://localhost:4318",
    existing_tables={"halls": TABLE, DEDUP: RECORDS},
    existing_queues={"refunds": QUEUE},
    python_runtime="3.13",  # with SnapStart
    consumers_per_stack=7,
)
PLAIN = DeploymentConfig(
    service="theatre-test",
    email_sender="office@theatre.de",
    create_email_identity=False,
    ingress_publishers=("s3", "events", ACCOUNT),
    keep_data=False,
    fifo_topic_dead_letters=False,
    python_runtime="3.13",
    dedup_warm_throughput=WarmThroughput(24_000, 8_000),
)
TEST = Stage("test", "444455556666", "us-east-1", PLAIN)
PROD = Stage("prod", ACCOUNT, REGION, OPTIONS)

MORE = (
    ConsumerProps("refunds", external=("seat.refunded",), tables=(TableProps("halls", "hall"),)),
    ConsumerProps(
        "mails",
        events=("seat.taken",),
        tables=(TableProps("mails", "seat"),),
        secrets=("printer_key",),
        effect_timeout_seconds=3,
        batch_size=1,
        sends_email=True,
        claim_check_mb=5,
        rollout=Rollout.CANARY_10_PERCENT_5_MINUTES,
        pollers=Pollers(minimum=2, maximum=4),
        reserved_concurrency=42,
        snap_start=True,
    ),
    ConsumerProps("uploads", external=("ObjectCreated",), source=Source.s3("theatre-uploads")),
    ConsumerProps(
        "rule", external=("Moved",), source=Source.event_bridge("theatre.stage", envelope_id=True)
    ),
    ConsumerProps(
        "tallies",
        events=("seat.taken", "github.push"),
        fifo=True,
        ordered_by="show.id",
        claim_check_mb=4,
        batch_size=1,
    ),
    ConsumerProps("nightly", external=("night.fell",), source=Source.schedule("rate(1 day)")),
)
ON_ITEMS = ConsumerProps(
    "records",
    external=("hall.opened",),
    tables=(TableProps("openings", "hall"),),
    dedup=Dedup.ITEM,
    group_size=1,
)
STARTS = ConsumerProps(
    "starts",
    external=("hall.booked",),
    tables=(TableProps("bookings", "hall"),),
    batch_size=1,
    effect_timeout_seconds=8,
    starts=(
        StateMachineProps("fulfil", f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:fulfil:PROD"),
        DurableFunctionProps("bill", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:bill:live"),
    ),
)
ISSUER = "https://login.theatre.de"
DESK = CommandProps(
    "desk",
    tables=(TableProps("halls", "hall"),),
    routes={"POST /halls/{hall}/seats": "take-seat", "DELETE /seats": "leave-seat"},
    auth=Auth.jwt(ISSUER, "box-office", "app"),
    commands=("close-hall",),
    publishes=("seat.taken",),
    snap_start=True,
    reserved_concurrency=20,
    requests_a_second=40,
)
ENDPOINTS = (Endpoint("github", GITHUB, types=("push",)),)


def full_service(folder: Path) -> Registry:
    """Return the registry of the service, with its handlers in `folder`."""
    lines = lines_in(folder / "functions", (*LINES, *MORE, ON_ITEMS, STARTS))
    (folder / "functions" / "webhooks").mkdir()
    (folder / "functions" / "webhooks" / "handler.py").touch()
    registry = registry_in(folder, lines)
    return Registry(
        registry.consumers,
        file=registry.file,
        functions=registry.functions,
        deployed=registry.deployed,
        webhooks=WebhookProps(endpoints=ENDPOINTS, http_api=True),
        commands=commands_in(folder / "functions", DESK),
    )


def full_app(folder: Path) -> App:
    """Return the app with both stages, not yet synthesized."""
    app = new_app(folder / "out", service=None, email_sender=None, create_email_identity=None)
    assemble(app, full_service(folder), stages=(TEST, PROD))
    return app


CDKS_OWN = "BucketNotificationsHandler"
"""The CDK's function that writes a bucket's notifications. It is outside the VPC."""


class StageStack(NamedTuple):
    """A stack of a stage. `CloudAssembly` would fetch its template from Node at every use."""

    stack_name: str
    template: Json
    tags: dict[str, str]
    environment: tuple[str, str]


class Stacks:
    """The stacks of both stages, and one with a bad queue, for which cdk-nag refuses the app."""

    def __init__(self, folder: Path) -> None:
        from cdk_nag import AwsSolutionsChecks  # it starts the CDK's runtime

        out = folder / "out"
        with without_packages():
            app = full_app(folder)
            sqs.Queue(cdk.Stack(app, "bad"), "Queue")
            cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
            with pytest.raises(RuntimeError, match=r"validation-report\.json"):
                app.synth()
        self.stacks = {
            each.stack_name: StageStack(
                each.stack_name,
                json.loads(Path(each.template_full_path).read_text()),
                dict(each.tags),
                (each.environment.account, each.environment.region),
            )
            for each in CloudAssembly(str(out)).stacks
        }
        self.report = json.loads((out / "validation-report.json").read_text())
        self.metadata = [json.loads(each.read_text()) for each in out.glob("*.metadata.json")]

    def of(self, stage: str) -> Iterator[StageStack]:
        prefix = f"theatre-{stage}-"
        yield from (each for name, each in self.stacks.items() if name.startswith(prefix))

    def every(self, kind: str, stage: str = "prod") -> dict[str, Json]:
        """Return the properties of the resources of a type, by logical id."""
        return {
            name: resource.get("Properties", {})
            for stack in self.of(stage)
            for name, resource in stack.template["Resources"].items()
            if resource["Type"] == kind and not name.startswith(CDKS_OWN)
        }

    def statements(self, role: str) -> list[Json]:
        policies = self.every("AWS::IAM::Role")[role].get("Policies", [])
        return [s for policy in policies for s in policy["PolicyDocument"]["Statement"]]
