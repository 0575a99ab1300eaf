"""Options of the `webhooks` commands."""

from typing import Annotated

from typer import Argument, Option

from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.aws.deployment import Deployment
from once.ops.terminal.timestamps import TIME_FORMATS
from once.ops.webhooks.capture_search import webhooks_of
from once.webhooks.capture import Standing

IdArgument = Annotated[
    str,
    Argument(
        metavar="ID",
        help=(
            "The provider's id, a dedup key, or the beginning of a key, of its hash or of a body's "
            "SHA-256."
        ),
    ),
]
IdsArgument = Annotated[list[str] | None, Argument(metavar="ID", help="As for `show`.")]
EndpointOption = Annotated[str | None, Option("--endpoint", help="Only webhooks of this endpoint.")]
TypeOption = Annotated[
    str | None,
    Option("--type", help="Only webhooks of this type: the provider's, or that of the event."),
]
StandingOption = Annotated[
    Standing | None, Option("--standing", help="Only webhooks with this standing.")
]
SinceOption = Annotated[
    str | None,
    Option(metavar="WHEN", help=f"Only webhooks from this time or later: {TIME_FORMATS}."),
]
UntilOption = Annotated[
    str | None, Option(metavar="WHEN", help="Only webhooks from before this time.")
]


def find_webhooks(service: str) -> tuple[Deployment, DeployedWebhooks]:
    """Find a deployment and its webhook ingress.

    Raises:
        OpsError: there is no such deployment, or it has no ingress.
    """
    deployment = Deployment.find(service)
    return deployment, webhooks_of(deployment)
