"""Connection to an embedded AWS: endpoint, certificate and credentials for clients."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

HOST = "127.0.0.1"
REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Address and folder of an embedded AWS.

    The account number is random, and is the access key as well: tools that cache the account of a
    key do not confuse two instances. The key is the account's root, with any secret.
    """

    port: int
    account: str
    certificate: Path
    state_dir: Path
    region: str = REGION

    @property
    def endpoint(self) -> str:
        """The one URL of every service."""
        return f"https://{HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables with which SDKs, the AWS CLI and the CDK use this AWS only."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": self.account,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_CA_BUNDLE": str(self.certificate),
            "NODE_EXTRA_CA_CERTS": str(self.certificate),
            "NO_PROXY": f"{HOST},localhost",
        }

    def client(self, service: str, **options: Any) -> Any:
        """Return a boto3 client of this AWS, independent of the process's environment.

        Args:
            service: boto3's name of the service, such as `sqs`.
            options: Further arguments of `boto3.Session.client`; a `config` is merged.
        """
        config = Config(proxies={}).merge(options.pop("config", Config()))
        session = boto3.Session(
            aws_access_key_id=self.account,
            aws_secret_access_key=self.account,
            region_name=self.region,
        )
        return session.client(
            service,
            endpoint_url=self.endpoint,
            verify=str(self.certificate),
            config=config,
            **options,
        )
