"""The CDK app of the service: `cdk deploy 'tickets-test-*'` deploys a stage."""

import os
from pathlib import Path

import consumers

from once.cdk import DeploymentConfig, ExistingQueue, ExistingTable, Registry, Stage, run_app

HERE = Path(__file__).resolve().parent
REGISTRY = Registry(
    consumers.CONSUMERS,
    file=Path(consumers.__file__),
    functions=HERE / "functions",
    deployed=HERE / "deployed.json",
)


def config(service: str, account: str, region: str = "eu-west-1") -> DeploymentConfig:
    """Return a deployment in which the table and the queue exist already."""
    table = f"arn:aws:dynamodb:{region}:{account}:table/seats"
    queue = f"arn:aws:sqs:{region}:{account}:bookings"
    return DeploymentConfig(
        service=service,
        tags={"service": service},
        existing_tables={"seats": ExistingTable(table)},
        existing_queues={"tickets": ExistingQueue(queue)},
    )


STAGES = (
    Stage("test", "444455556666", "eu-west-1", config("tickets-test", "444455556666")),
    Stage("prod", "111122223333", "eu-west-1", config("tickets-prod", "111122223333")),
)
EMBEDDED = config("tickets", os.environ.get("CDK_DEFAULT_ACCOUNT", "0" * 12), "us-east-1")

if __name__ == "__main__":
    run_app(REGISTRY, EMBEDDED, STAGES)
