"""The consumer of all examples: another team's system sends plain JSON to its queue."""

from pathlib import Path

from once.cdk import ConsumerProps, DeploymentConfig, Registry, Source, TableProps

CONSUMERS = (
    ConsumerProps(
        "tickets",
        external=("seat.booked",),
        tables=(TableProps("seats", "seat"),),
        source=Source.json(type="seat.booked"),
        aws_services=(),
    ),
)

CONFIG = DeploymentConfig(python_runtime="3.12")

HERE = Path(__file__).resolve().parent
REGISTRY = Registry(
    CONSUMERS,
    file=HERE / "registry.py",
    functions=HERE / "functions",
    deployed=HERE / "deployed.json",
)
