"""A stage: one deployment of a service, in one account and region."""

from dataclasses import dataclass

from once.cdk.deployment_config import DeploymentConfig


@dataclass(frozen=True, slots=True)
class Stage:
    """A deployment of the service, such as `test` or `prod`.

    Attributes:
        name: names it in faults.
        account: the id of the AWS account.
        region: the AWS region.
        config: its configuration. No two stages have the same `service`, of which the names of
            its stacks and resources, and its record of deployed names, are made.
    """

    name: str
    account: str
    region: str
    config: DeploymentConfig
