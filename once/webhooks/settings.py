"""Settings that the infrastructure gives a webhook ingress. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass

from once.settings import CommitSettings
from once.webhooks.endpoint import Endpoint

CAPTURES = "captures"
"""Name of the table of captures in `WebhookSettings.tables`."""

OBJECTS = "webhooks/"
"""Prefix of the objects with large bodies, in the claim-check bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings(CommitSettings):
    """The deployment of a webhook ingress. Its table of captures is `tables["captures"]`.

    Attributes:
        endpoints: the endpoints.
        secrets: the ARN of the secret of each endpoint, by the endpoint's name. The value is one
            secret a line; its previous version counts as well.
        capture_seconds: the time for which a capture is kept.
    """

    endpoints: tuple[Endpoint, ...]
    secrets: Mapping[str, str]
    capture_seconds: int
