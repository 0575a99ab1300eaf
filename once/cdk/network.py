"""Network of the functions: subnets of an existing VPC."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The place of every function in a VPC.

    The functions need no incoming connections. Lambda polls the queues outside the VPC.

    Attributes:
        subnets: ids of private subnets, in two availability zones or more.
        security_groups: ids of security groups that allow outgoing HTTPS.
        endpoints: the services that have a VPC endpoint in these subnets, such as `sqs`, by the
            last part of the endpoint's name; None if the subnets reach AWS through a NAT gateway.
    """

    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    endpoints: tuple[str, ...] | None = None
