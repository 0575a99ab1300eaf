"""The names on which library, infrastructure and operator's tools agree. Standard library only.

Whatever two of them would otherwise both spell out stands here once: attribute names of the dedup
record and of dead letters, keys of stack outputs, reason codes, and the limits that AWS documents.
"""

import re
from enum import StrEnum

SCHEMA_VERSION = 1
"""Shape of the dedup record. A change of shape is a new version, and readers know both."""

CONSUMER_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""A consumer's name is part of each dedup key and of its folder's import path. Keep it for good."""

RELAY = "outbox_relay"
"""The function on the dedup table's stream. It consumes no queue, so it is no consumer."""

UNROUTED = "unrouted"
"""The function that finds the events no consumer subscribes to, and the queue that keeps them."""

EVENT_TYPE_ATTRIBUTE = "type"
"""Message attribute on the topic; each queue's filter policy selects by it."""

SOURCE_PREFIX = "/once/"
"""Prefix of the CloudEvents `source` of every event that a consumer publishes; reserved for it."""

COMMIT_ATTRIBUTE = "once_commit"
"""On every item the library writes: the commit that wrote it last. Makes reads checkable."""

CLOCK_SKEW_SECONDS = 300
"""Assumed: the clock of a function differs from true time by at most this."""

CLOCK_MARGIN_SECONDS = 2 * CLOCK_SKEW_SECONDS
"""The clocks of two functions differ by at most this: one may be slow and the other fast."""


def source_of(consumer: str) -> str:
    """Return the CloudEvents `source` of the events that a consumer publishes."""
    return f"{SOURCE_PREFIX}{consumer}"


class Record:
    """Attribute names of the dedup record."""

    PK = "pk"
    SCHEMA = "schema"
    STATE = "state"
    FINGERPRINT = "fingerprint"
    COMMIT = "commit"
    EVENT_TYPE = "event_type"
    OUTCOME = "outcome"
    REFUSAL = "refusal"
    COMMITTED_AT = "committed_at"
    EXPIRES_AT = "expires_at"
    OUTBOX = "outbox"
    """The events to publish, as a JSON array of CloudEvents in one text."""
    EFFECT = "effect"
    PROVIDER_KEY = "provider_key"
    REQUEST = "request"
    KEY_EXPIRES_AT = "key_expires_at"
    OWNER = "owner"
    LEASE_UNTIL = "lease_until"
    STANDING = "standing"


class State(StrEnum):
    """State of a dedup record: `pending` while an effect's outcome is not known."""

    PENDING = "pending"
    DONE = "done"


class Standing(StrEnum):
    """State of the effect of a pending record."""

    IN_FLIGHT = "in-flight"
    """Its owner is calling the provider, or died: after the lease it is as good as unknown."""
    NOT_DONE = "not-done"
    """The provider has certainly done nothing."""
    UNKNOWN = "unknown"
    """The provider may have done it."""


class Outcome(StrEnum):
    """Outcome of a committed event."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


class Reason(StrEnum):
    """Why a message was quarantined: the `once-reason` attribute of a dead letter."""

    UNPARSEABLE = "unparseable"
    INVALID_EVENT = "invalid-event"
    UNKNOWN_TYPE = "unknown-type"
    UNTRUSTED_SOURCE = "untrusted-source"
    INVALID_DATA = "invalid-data"
    NO_KEY = "no-key"
    KEY_CONFLICT = "key-conflict"
    TOO_LARGE = "too-large"
    INVALID_WRITE = "invalid-write"
    UNHANDLED_REFUSAL = "unhandled-refusal"
    PERMANENT = "permanent"
    EFFECT_UNKNOWN = "effect-unknown"
    UNPUBLISHABLE = "unpublishable"
    NO_TYPE = "no-type"
    UNSUBSCRIBED_TYPE = "unsubscribed-type"
    TOO_MANY_ATTRIBUTES = "too-many-attributes"
    RETRIES_EXHAUSTED = "retries-exhausted"
    NOT_TRIED = "not-tried"
    UNFINISHED = "unfinished"


class DeadLetter:
    """Message attribute names of a dead letter. SQS allows ten attributes a message."""

    REASON = "once-reason"
    ERROR = "once-error"
    CONSUMER = "once-consumer"
    KEY_HASH = "once-key-hash"
    FIRST_SEEN = "once-first-seen"
    RECEIVE_COUNT = "once-receive-count"
    LINEAGE = "once-lineage"
    ATTRIBUTES = "once-attributes"
    """The attributes that the message had, as JSON in the form in which Lambda shows them."""
    ORIGINAL_GZIP = "once-original-gzip"
    """Body and attributes, compressed, where they and the reason are over SQS's limit together."""
    LEFT_OUT = "once-left-out"
    """The part that is in no form within SQS's limit: the producer's `attributes`, as a rule."""


class StackOutput:
    """Keys of the stacks' outputs by which the operator's tools find the deployed resources."""

    INGRESS_TOPIC = "IngressTopicArn"
    EVENTS_TOPIC = "EventsTopicArn"
    RELAY_FUNCTION = "RelayFunction"  # not `Function…`: each key of that form is a consumer's
    RELAY_DEAD_LETTERS = "RelayDeadLetters"
    UNROUTED_QUEUE = "UnroutedQueue"
    SWEEP_QUEUE = "SweepQueue"
    DEDUP_TABLE = "DedupTable"

    # Prefixes; the name of a consumer or table follows, in the form of `once.cdk.output_key`.
    QUEUE = "Queue"
    ISOLATION_QUEUE = "Isolation"
    DEAD_LETTERS = "DeadLetters"
    FUNCTION = "Function"
    EVENT_TYPES = "Takes"
    TABLE = "Table"


class Metric:
    """Names of the metrics, each with the one dimension `service`, if nothing else is said."""

    NAMESPACE = "Once"
    COMMITTED = "Committed"
    REFUSED = "Refused"
    REDELIVERED = "DuplicatesRedelivered"
    """SQS delivered a message again whose event was committed before."""
    REDRIVEN = "DuplicatesRedriven"
    """A dead letter was sent back whose event was committed before."""
    RESENT = "DuplicatesResent"
    """The producer sent an event twice: two messages, or the topic did."""
    RETRIED = "Retried"
    QUARANTINED = "Quarantined"
    """By `service`; and once more by `service` and `reason`."""
    ISOLATED = "Isolated"
    """Messages that were moved to the isolation queue, where each runs alone."""
    CONFLICTS = "Conflicts"
    """Attempts to commit that others were in the way of."""
    GROUP_SIZE = "GroupSize"
    """Messages in a request that committed, on the average of an invocation."""
    COMMIT_MS = "CommitLatency"
    """Of the slowest request of an invocation that committed."""
    EFFECTS_DONE = "EffectsDone"
    EFFECTS_NOT_DONE = "EffectsNotDone"
    EFFECTS_UNANSWERED = "EffectsUnanswered"
    """Whose outcome is not known, and that are tried again."""
    EFFECTS_UNKNOWN = "EffectsUnknown"
    """Whose outcome is not known, and that only a person can settle."""
    PENDING_SECONDS = "PendingEffectAge"
    """Age of an effect that a later delivery finds without its outcome."""
    BREAKER_OPEN = "BreakerOpen"
    """Messages that were not tried because what they depend on is down."""
    RELAY_LAG_MS = "RelayLag"
    """From the commit to the topic, of the slowest event of a batch."""
    PUBLISHED = "EventsPublished"


class Limits:
    """Limits that AWS documents. Sizes in bytes, times in seconds."""

    TRANSACTION_ACTIONS = 100
    TRANSACTION_BYTES = 4 * 1024 * 1024
    BATCH_GET_KEYS = 100
    ITEM_BYTES = 400 * 1024
    PARTITION_KEY_BYTES = 2048
    MESSAGE_BYTES = 1024 * 1024
    """Of one message to SQS and of one batch alike, attributes included."""
    MESSAGE_ATTRIBUTES = 10
    QUEUE_BATCH = 10
    TOPIC_MESSAGE_BYTES = 256 * 1024
    """Of one message and of one batch alike, attributes included."""
    TOPIC_BATCH = 10
    VISIBILITY_SECONDS = 12 * 60 * 60
    MIN_RECEIVE_COUNT = 5
    VISIBILITY_FACTOR = 6
    QUEUE_RETENTION_SECONDS = 4 * 24 * 60 * 60
    QUEUE_STAY_SECONDS = 2 * QUEUE_RETENTION_SECONDS
    """In a consumer's queue and then in its isolation queue, each with the retention above."""
    DEAD_LETTER_RETENTION_SECONDS = 14 * 24 * 60 * 60
