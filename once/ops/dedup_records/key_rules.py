"""Key rules of the deployed consumers: the dedup key and the fingerprint of an event.

Synthesis reads the rules from the handlers' source and writes them into the stack's outputs. A key
is computed by `once.events.dedup_key`, as the consumer does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import RULES, Key
from once.events.fingerprint import fingerprint
from once.ops.aws.deployment import DeployedConsumer


@dataclass(frozen=True, slots=True)
class KeyRules:
    """The key rules of one consumer.

    Attributes:
        consumer: the consumer's name in its dedup keys.
        external: the event types that it takes from producers.
        events: the event types that it takes from other consumers.
        keys: the key rule of each event type; without those that synthesis could not read.
        volatile: the volatile fields of the event types that have some; None if not known.
    """

    consumer: str
    external: Collection[str] = ()
    events: Collection[str] = ()
    keys: Mapping[str, Key] = field(default_factory=dict)
    volatile: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, consumer: DeployedConsumer) -> "KeyRules":
        """Return the rules of a deployed consumer."""
        keys = {
            event_type: Key(rule[0], rule[1:])
            for event_type, rule in consumer.keys.items()
            if rule and rule[0] in RULES
        }
        return cls(consumer.identity, consumer.external, consumer.events, keys, consumer.volatile)

    @property
    def without_rule(self) -> list[str]:
        """The event types whose key rule is not known."""
        return [one for one in (*self.external, *self.events) if one not in self.keys]

    def takes(self, event_type: str) -> bool:
        """Tell whether the consumer handles an event type."""
        return event_type in self.external or event_type in self.events

    def key(self, event: CloudEvent) -> str | None:
        """Return the dedup key of an event; None if its rule or its volatile fields are not known.

        Raises:
            NoKey, TooLarge: the consumer would reject the event for its key.
        """
        rule, content = self.keys.get(event.type), self.fingerprint(event)
        if rule is None or (content is None and rule == Key.content()):
            return None
        return rule.of(event, fingerprint=content or "", consumer=self.consumer)

    def fingerprint(self, event: CloudEvent) -> str | None:
        """Return the fingerprint of an event; None if its volatile fields are not known."""
        volatile = self.volatile.get(event.type, ()) if event.type in self.keys else None
        return None if volatile is None else fingerprint(event, volatile=volatile)
