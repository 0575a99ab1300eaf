"""How a finding of cdk-nag is answered that is meant to be so."""

from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding of `rule` at this construct, and say why in the template's report."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))
