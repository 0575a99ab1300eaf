"""Account and region of a run: those that the caller names and the credentials belong to."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from once.ops.errors import OpsError

ClientOf = Callable[[str], Any]
"""Returns the boto3 client of a service, such as `sqs`."""


def checked_account(
    number: str | None, environment: Mapping[str, str], region: str | None, client: ClientOf
) -> tuple[str, str]:
    """Return the account number and the region, after all checks that need no deployment.

    Args:
        number: the account that the caller named.
        environment: the process's variables; AWS_REGION and AWS_DEFAULT_REGION count first.
        region: the region of the profile, if there is one.
        client: makes clients with the caller's credentials.

    Raises:
        OpsError: account or region is missing, the credentials belong to another account, or the
            account is not prepared for the CDK.
    """
    if not number or not re.fullmatch(r"[0-9]{12}", number):
        given = f"{number!r} is no account" if number else "no account is named"
        raise OpsError(f"{given}: `make verify ACCOUNT=` and the 12 digits of your own account")
    found = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or region
    if not found:
        raise OpsError("no region is named: set AWS_REGION, such as AWS_REGION=eu-west-1")
    own = client("sts").get_caller_identity()["Account"]
    if own != number:
        raise OpsError(
            f"the credentials belong to account {own}, and not to {number}: choose the profile "
            "with AWS_PROFILE, or name the other account"
        )
    try:
        client("cloudformation").describe_stacks(StackName="CDKToolkit")
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        raise OpsError(
            f"the account has no stack CDKToolkit in {found}: run `make bootstrap` first"
        ) from None
    return number, found


def check_concurrency(templates: Sequence[Any], client: ClientOf) -> None:
    """Check that the account may run the functions of the service at once.

    Raises:
        OpsError: it may not. A throttled message counts as received, and is dead-lettered after
            five receives: checks would fail for a reason that is not theirs.
    """
    resources = [each for one in templates for each in one["Resources"].values()]
    mappings = [r for r in resources if r["Type"] == "AWS::Lambda::EventSourceMapping"]
    scaling = (each["Properties"].get("ScalingConfig", {}) for each in mappings)
    needed = sum(r["Type"] == "AWS::Lambda::Url" for r in resources)
    needed += sum(int(each.get("MaximumConcurrency", 1)) for each in scaling)
    if not needed:
        return
    limit = client("lambda").get_account_settings()["AccountLimit"]
    free = int(limit["UnreservedConcurrentExecutions"])
    if free < needed:
        raise OpsError(
            f"the account may run {free} functions at once, and the checks need {needed}: "
            "throttles would use up receives. Ask for more, which is free: aws service-quotas "
            "request-service-quota-increase --service-code lambda --quota-code L-B99A9384 "
            "--desired-value 1000"
        )
