"""The names of a deployment that hold data, and the file that records them.

A name that was deployed and is missing from the registry later is a renamed or removed consumer,
table, secret or endpoint of webhooks: its messages or its data would be left behind. The file is
committed.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec

from once.cdk.errors import SynthError
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps


class DeployedNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names that hold data.

    Attributes:
        consumers: the identity of each consumer, by its name.
        fifo: names of the consumers with a FIFO queue.
        tables: names of business tables.
        secrets: names of secrets.
        endpoints: names of the endpoints of each webhook ingress, by the ingress's name.
    """

    consumers: dict[str, str] = {}
    fifo: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    endpoints: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, consumers: Iterable[ConsumerProps], webhooks: WebhookProps | None = None) -> Self:
        """Return the names of a registry, and of its webhook ingress if it has one."""
        registry = list(consumers)
        return cls(
            consumers={each.name: each.identity for each in registry},
            fifo=_sorted(each.name for each in registry if each.fifo),
            tables=_sorted(table.name for each in registry for table in each.tables),
            secrets=_sorted(secret for each in registry for secret in each.secrets),
            endpoints={} if webhooks is None else _endpoints(webhooks),
        )

    @classmethod
    def read(cls, file: Path, service: str) -> "DeployedNames":
        """Return the names that a file records for one deployment.

        Args:
            file: a JSON object with the names of each deployment; `{}` if there is none yet.
            service: the name of the deployment.

        Raises:
            SynthError: the file is missing or malformed.
        """
        return _read(file).get(service, cls())

    def record(self, file: Path, service: str) -> list[str]:
        """Add the names to those that a file records for one deployment, and return the new ones.

        Names are never taken out here: a person does that when they hold no data any more.

        Raises:
            SynthError: the file is missing or malformed.
        """
        every = _read(file)
        known = every.get(service, DeployedNames())
        every[service] = DeployedNames(
            consumers={**known.consumers, **self.consumers},
            fifo=_sorted((*known.fifo, *self.fifo)),
            tables=_sorted((*known.tables, *self.tables)),
            secrets=_sorted((*known.secrets, *self.secrets)),
            endpoints={
                name: _sorted((*known.endpoints.get(name, ()), *self.endpoints.get(name, ())))
                for name in (*known.endpoints, *self.endpoints)
            },
        )
        file.write_text(json.dumps(msgspec.to_builtins(every), indent=2, sort_keys=True) + "\n")
        return [
            *sorted(self.consumers.keys() - known.consumers.keys()),
            *sorted({*self.tables} - {*known.tables}),
            *sorted({*self.secrets} - {*known.secrets}),
            *(
                f"{name}/{endpoint}"
                for name, endpoints in self.endpoints.items()
                for endpoint in endpoints
                if endpoint not in known.endpoints.get(name, ())
            ),
        ]


def _read(file: Path) -> dict[str, DeployedNames]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, DeployedNames])
    except (OSError, msgspec.DecodeError) as error:
        fault = (
            f"{file} cannot be read ({error}); restore it from version control, or write {{}} if "
            "nothing was ever deployed"
        )
        raise SynthError("the deployed names are not known", [fault]) from None


def _endpoints(webhooks: WebhookProps) -> dict[str, tuple[str, ...]]:
    return {webhooks.name: _sorted(each.name for each in webhooks.endpoints)}


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*names}))
