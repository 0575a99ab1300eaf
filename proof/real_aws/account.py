"""Account and region of a run: those that the caller names and the credentials belong to."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from once.ops.errors import OpsError

ClientOf = Callable[[str], Any]
"""Returns the boto3 client of a service, such as `sqs`."""

_NUMBER = re.compile(r"\d{12}", re.ASCII)
_BOOTSTRAP = "CDKToolkit"


@dataclass(frozen=True, slots=True)
class Account:
    """The account number and the region that a run deploys into."""

    number: str
    region: str


def checked_account(
    number: str | None, environment: Mapping[str, str], region: str | None, client: ClientOf
) -> Account:
    """Return the account, after all checks that need no deployment.

    Args:
        number: the account that the caller named.
        environment: the process's variables; AWS_REGION and AWS_DEFAULT_REGION count first.
        region: the region of the profile, if there is one.
        client: makes clients with the caller's credentials.

    Raises:
        OpsError: account or region is missing, the credentials belong to another account, or the
            account is not prepared for the CDK.
    """
    if not number or not _NUMBER.fullmatch(number):
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
    _check_bootstrap(client, found)
    return Account(number, found)


def _check_bootstrap(client: ClientOf, region: str) -> None:
    try:
        client("cloudformation").describe_stacks(StackName=_BOOTSTRAP)
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        raise OpsError(
            f"the account has no stack {_BOOTSTRAP} in {region}: run `make bootstrap` first"
        ) from None
