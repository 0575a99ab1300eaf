"""Findings of cdk-nag that are accepted, each with its reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import Construct


def acknowledge_finding(construct: Construct, rule: str, reason: str) -> None:
    """Accept one finding of `rule` at this construct; the template's report states the reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))
