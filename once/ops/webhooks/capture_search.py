"""Selection of captures: by id, or by a filter. What is returned has no body yet."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from once.errors import TooLarge
from once.events.dedup_key import key_hash
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.terminal.formatting import format_time
from once.ops.webhooks._capture_index import MOST_READ, CaptureIndex
from once.ops.webhooks.capture_filter import CaptureFilter
from once.ops.webhooks.capture_store import CaptureStore
from once.webhooks.capture import Capture

_HASH = re.compile(r"[0-9a-f]{64}")
_LEAST_OF_HASH = 8
_SHOWN = 5


def webhooks_of(deployment: Deployment) -> DeployedWebhooks:
    """Return the webhook ingress of a deployment.

    Raises:
        OpsError: it has none.
    """
    if deployment.webhooks is None:
        raise OpsError(
            f"{deployment.service!r} has no webhook ingress: declare one "
            "(`once.cdk.WebhookIngress`) and deploy, or name another deployment with --service"
        )
    return deployment.webhooks


@dataclass(frozen=True, slots=True)
class CaptureSearch:
    """Finds captures of a deployment."""

    webhooks: DeployedWebhooks
    index: CaptureIndex
    store: CaptureStore

    @classmethod
    def of(
        cls, deployment: Deployment, webhooks: DeployedWebhooks, most: int | None = None
    ) -> Self:
        """Return the search of a deployment's captures, which reads at most so many."""
        store = CaptureStore.of(deployment, webhooks.captures)
        return cls(
            webhooks, CaptureIndex(store.dynamodb, webhooks.captures, most or MOST_READ), store
        )

    def matching(self, conditions: CaptureFilter) -> Iterator[Capture]:
        """Yield the captures that match, newest first.

        Raises:
            OpsError: there is no such endpoint, or there are too many captures to look at.
        """
        names = conditions.endpoints(self.webhooks)
        found = self.index.newest(names, conditions.since, conditions.until)
        return filter(conditions.matches, found)

    def by_ids(self, ids: Sequence[str], conditions: CaptureFilter) -> list[Capture]:
        """Return the captures of these ids; those that no key tells are looked for by time.

        Raises:
            OpsError: an id matches no capture, or more than one.
        """
        found = {name: self._by_key(name, conditions) for name in dict.fromkeys(ids)}
        missing = [name for name, some in found.items() if not some]
        if missing:
            for capture in self.matching(conditions):
                for name in missing:
                    if _is_named(capture, name):
                        found[name].append(capture)
        chosen = [_one(name, some, conditions) for name, some in found.items()]
        return [*{capture.pk: capture for capture in chosen}.values()]

    def _by_key(self, name: str, conditions: CaptureFilter) -> list[Capture]:
        """Return the captures whose key can be told from an id without a search."""
        event_id = f"sha256:{name}" if _HASH.fullmatch(name) else name
        endpoints = [self.webhooks.endpoint(each) for each in conditions.endpoints(self.webhooks)]
        keys = [name]
        for endpoint in endpoints:
            try:
                keys.append(self.webhooks.key_of(endpoint, event_id))
            except TooLarge:
                continue
        return self.store.find(keys)


def _is_named(capture: Capture, name: str) -> bool:
    hashes = (capture.body_sha256, key_hash(capture.pk))
    is_hash = len(name) >= _LEAST_OF_HASH and any(each.startswith(name) for each in hashes)
    return bool(name) and (name == capture.webhook_id or is_hash or capture.pk.startswith(name))


def _one(name: str, found: Iterable[Capture], conditions: CaptureFilter) -> Capture:
    some = [*found]
    if len(some) == 1:
        return some[0]
    if some:
        keys = ", ".join(each.pk for each in some[:_SHOWN])
        raise OpsError(f"{len(some)} webhooks match {name!r}: give one of their keys: {keys}")
    raise OpsError(
        f"no webhook {name!r} was captured since {format_time(conditions.since)}, or its capture "
        "has expired: `once webhooks list` shows those there are, and --since looks further back"
    )
