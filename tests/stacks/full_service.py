"""A service in two stages: a plain one, and one with every option of an account."""

from pathlib import Path

from aws_cdk import App

from once.cdk import (
    GITHUB,
    ConsumerProps,
    CustomerKey,
    CustomerKeys,
    DeploymentConfig,
    Endpoint,
    ExistingQueue,
    ExistingTable,
    Network,
    Registry,
    Rollout,
    Source,
    Stage,
    TableProps,
    WebhookProps,
    assemble,
)
from tests.stacks.booking_office import LINES, lines_in, registry_in
from tests.stacks.cloud import new_app

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
QUEUE = ExistingQueue(
    f"arn:aws:sqs:{REGION}:{ACCOUNT}:refunds",
    f"{KEYS}/9abc0000-12ab-34cd-56ef-1234567890ab",
)
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
LAYER = f"arn:aws:lambda:{REGION}:{ACCOUNT}:layer:agent:7"
NETWORK = Network(
    subnets=("subnet-0a1b2c3d", "subnet-4e5f6a7b"),
    security_groups=("sg-0a1b2c3d",),
    endpoints=("dynamodb", "email", "s3", "secretsmanager", "sns", "sqs"),
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
    existing_tables={"halls": TABLE},
    existing_queues={"refunds": QUEUE},
)
PLAIN = DeploymentConfig(service="theatre-test", email_sender="office@theatre.de", keep_data=False)
TEST = Stage("test", "444455556666", "us-east-1", PLAIN)
PROD = Stage("prod", ACCOUNT, REGION, OPTIONS)

RULE = Source.event_bridge("theatre.stage", envelope_id=True)
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
    ),
    ConsumerProps("uploads", external=("ObjectCreated",), source=Source.s3("theatre-uploads")),
    ConsumerProps(
        "rule", external=("Moved",), source=Source.event_bridge("theatre.stage", envelope_id=True)
    ),
    ConsumerProps("nightly", external=("night.fell",), source=Source.schedule("rate(1 day)")),
)
ENDPOINTS = (Endpoint("github", GITHUB, types=("push",)),)


def full_service(folder: Path) -> Registry:
    """Return the registry of the service, with its handlers in `folder`."""
    lines = lines_in(folder / "functions", (*LINES, *MORE))
    (folder / "functions" / "webhooks").mkdir()
    (folder / "functions" / "webhooks" / "handler.py").touch()
    registry = registry_in(folder, lines)
    return Registry(
        registry.consumers,
        file=registry.file,
        functions=registry.functions,
        deployed=registry.deployed,
        webhooks=WebhookProps(endpoints=ENDPOINTS, http_api=True),
    )


def full_app(folder: Path) -> App:
    """Return the app with both stages, not yet synthesized."""
    app = new_app(folder / "out", service=None, email_sender=None, create_email_identity=None)
    assemble(app, full_service(folder), stages=(TEST, PROD))
    return app
