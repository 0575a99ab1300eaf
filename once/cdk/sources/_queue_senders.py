"""The principals that may send to a consumer's queue themselves."""

from aws_cdk import aws_iam as iam

from once.cdk.sources.destination import Destination
from once.source import JsonSource


def allow_senders(to: Destination, source: JsonSource) -> None:
    """Let the declared principals send to the queue; none of them if the source is stopped."""
    for number, arn in enumerate(() if to.stopped else source.senders):
        to.allow(f"Sender{number}", iam.ArnPrincipal(arn))
