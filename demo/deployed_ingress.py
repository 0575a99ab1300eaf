"""Deployed ingress: address, table of captures and secrets of the deployment's webhook ingress."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emulator.embedded_aws import EmbeddedAws
from once.schema import LIVE_ALIAS


@dataclass(frozen=True, slots=True)
class DeployedIngress:
    """A webhook ingress.

    Attributes:
        function_name: its function.
        url: its function URL.
        captures: the physical name of its table of captures.
        secret_arns: the ARN of each endpoint's secret, by the endpoint's name.
    """

    function_name: str
    url: str
    captures: str
    secret_arns: Mapping[str, str]

    @classmethod
    def find(cls, aws: EmbeddedAws, service: str, name: str = "webhooks") -> "DeployedIngress":
        """Read the ingress from the configuration of its function."""
        functions = aws.client("lambda")
        function = f"{service}-{name}"
        found = functions.get_function_configuration(FunctionName=function)
        variables = found["Environment"]["Variables"]
        url = functions.get_function_url_config(FunctionName=function, Qualifier=LIVE_ALIAS)
        return cls(
            function_name=function,
            url=url["FunctionUrl"],
            captures=json.loads(variables["ONCE_TABLES"])["captures"]["name"],
            secret_arns=json.loads(variables["ONCE_SECRETS"]),
        )

    def put_secrets(self, secretsmanager: Any, values: Mapping[str, str]) -> None:
        """Store a new version of the secret of each endpoint."""
        for endpoint, value in values.items():
            arn = self.secret_arns[endpoint]
            secretsmanager.put_secret_value(SecretId=arn, SecretString=value)
