"""Outputs of the two stacks of a deployment, read from CloudFormation."""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from once.ops.aws.clients import client
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_cloudformation.type_defs import StackTypeDef


def stack_outputs(service: str) -> dict[str, str]:
    """Return the outputs of both stacks, by output key.

    Args:
        service: the name the deployment has.

    Raises:
        OpsError: a stack is missing.
        botocore.exceptions.BotoCoreError, ClientError: CloudFormation cannot be read.
    """
    cloudformation: CloudFormationClient = client("cloudformation")
    stacks = [_stack(cloudformation, f"{service}-{part}") for part in ("state", "service")]
    return {
        output["OutputKey"]: output["OutputValue"]
        for stack in stacks
        for output in stack.get("Outputs", [])
    }


def _stack(cloudformation: "CloudFormationClient", name: str) -> "StackTypeDef":
    try:
        [stack] = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        raise OpsError(
            f"there is no stack {name!r} in {cloudformation.meta.region_name}: deploy first "
            "(`cdk deploy --all`), or name the deployment with --service, or the "
            "region with AWS_REGION"
        ) from None
    return stack
