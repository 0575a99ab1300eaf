"""Deployed webhooks: the resources of the webhook ingress, read from the outputs of the stacks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.ops.errors import OpsError
from once.schema import StackOutput
from once.webhooks.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedWebhooks:
    """Resources of the webhook ingress.

    Attributes:
        service: the name of the deployment.
        identity: the first part of its dedup keys, and of the source of its events.
        url: its address, with a slash at its end.
        captures: the table of captures.
        endpoints: the endpoints by name.
        secrets: the ARN of each endpoint's secret, by the endpoint's name.
    """

    service: str
    identity: str
    url: str
    captures: str
    endpoints: Mapping[str, Endpoint]
    secrets: Mapping[str, str]

    @classmethod
    def of(cls, service: str, outputs: Mapping[str, str]) -> Self | None:
        """Read the outputs of both stacks, by output key; None without an ingress.

        Raises:
            KeyError: an output is missing.
            OpsError: an output was written by another version.
        """
        if StackOutput.WEBHOOK_URL not in outputs:
            return None
        try:
            known = map(Endpoint.of_builtins, json.loads(outputs[StackOutput.WEBHOOK_ENDPOINTS]))
            endpoints = {each.name: each for each in known}
        except (TypeError, ValueError) as error:
            raise OpsError(
                f"the endpoints in the outputs of {service!r} cannot be read ({error}): use the "
                "version of `once` that it was deployed with, or deploy it again"
            ) from None
        return cls(
            service=service,
            identity=outputs[StackOutput.WEBHOOK_FUNCTION].removeprefix(f"{service}-"),
            url=f"{outputs[StackOutput.WEBHOOK_URL].rstrip('/')}/",
            captures=outputs[StackOutput.CAPTURES],
            endpoints=endpoints,
            secrets={name: outputs[_secret_output(name)] for name in endpoints},
        )

    def endpoint(self, name: str) -> Endpoint:
        """Return one endpoint.

        Raises:
            OpsError: there is none of this name.
        """
        if name not in self.endpoints:
            known = ", ".join(self.endpoints)
            raise OpsError(f"{self.service!r} has no endpoint {name!r}: choose one of {known}")
        return self.endpoints[name]

    def key_of(self, endpoint: Endpoint, event_id: str) -> str:
        """Return the dedup key of a webhook of an endpoint.

        Raises:
            once.errors.TooLarge: the id is too long for a key.
        """
        event = CloudEvent(id=event_id, source=endpoint.source, type="")
        return Key.event().of(event, fingerprint="", consumer=self.identity)


def _secret_output(endpoint: str) -> str:
    return f"{StackOutput.ENDPOINT_SECRET}{''.join(map(str.capitalize, endpoint.split('-')))}"
