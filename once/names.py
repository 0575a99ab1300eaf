"""Names that library, infrastructure and operator's tools share. Standard library only.

They are the attribute names of dedup records and dead letters, keys of stack outputs, reason codes,
metrics, the variables of workflows, and the limits that AWS documents.
"""

import re
from enum import StrEnum

SCHEMA_VERSION = 1
"""Shape of the dedup record. A change of shape is a new version, and readers know both."""


def explained_by(subject: str) -> str:
    """Return the command that shows the page of a subject, as a text. `once.ops.explain` has it."""
    return f"`once explain {subject}`"


CONSUMER_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""A consumer's name is part of its folder's import path, and its first name of each dedup key."""

EVENT_TYPE = re.compile(r'[^\s,*"\\]([^,*"\\]*[^\s,*"\\])?')
"""An event type. A queue selects it literally: an asterisk would select nothing else.

SNS needs a second escape for a quotation mark and a backslash in a filter policy.
"""
EVENT_TYPE_RULE = "without commas, asterisks, quotation marks, backslashes and outer spaces"

OTLP_ENDPOINT = "ONCE_OTLP_ENDPOINT"
"""Variable of a function: base URL of the collector that takes its spans and metrics."""

RELAY = "outbox_relay"
"""The function on the dedup table's stream. It consumes no queue, so it is no consumer."""

UNROUTED = "unrouted"
"""The function that finds the events no consumer subscribes to, and the queue that keeps them."""

LIVE_ALIAS = "live"
"""Alias of each function: the published version that its queues or its stream invoke."""

EVENT_TYPE_ATTRIBUTE = "type"
"""Message attribute on the topic; each queue's filter policy selects by it."""

SOURCE_PREFIX = "/once/"
"""Prefix of the CloudEvents `source` of every event that a consumer publishes; reserved for it."""

CAUSE_EXTENSION = "oncecause"
"""Extension attribute of the events that a consumer publishes: the dedup key of their record."""

DUE_EXTENSION = "oncedue"
"""Extension attribute of a due event: the time of the commit that set it. Its `time` is when it is
due."""

COMMIT_ATTRIBUTE = "once_commit"
"""On every item that the library writes: the id of its last commit, whose beginning is that of the
key hash of the event's dedup key. A read is checked by it."""

CLOCK_SKEW_SECONDS = 300
"""Assumed: the clock of a function differs from true time by at most this."""

CLOCK_MARGIN_SECONDS = 2 * CLOCK_SKEW_SECONDS
"""The clocks of two functions differ by at most this: one may be slow and the other fast."""


PRODUCER_OBJECTS = "producers/"
"""Prefix of the objects in the claim-check bucket that producers may write and refer to."""


def consumer_objects(consumer: str) -> str:
    """Return the prefix of the objects of all events that a consumer publishes."""
    return f"consumers/{consumer}/"


MAX_COMMIT_THREADS = 10
"""Connections that the SDK keeps open: one for each group that may commit concurrently."""

SEQUENCE = "sequence"
"""Second part of the key of a sequence item, where a dedup key has the name of its rule."""


def sequence_key(consumer: str, group: str) -> str:
    """Return the partition key of the sequence item of a consumer's message group."""
    return f"{consumer}#{SEQUENCE}#{group}"


COMMAND = "command"
"""Second part of the key of a command, where an event's has the name of its rule."""


EXECUTION_PREFIX = "once-"
"""Prefix of the names of executions that consumers start. Their roles may read no others."""

RETENTION_DAYS = 14
"""AWS's default of the days for which Lambda keeps an ended durable execution, and its name."""


def workflow_variable(name: str) -> str:
    """Return the environment variable that holds the ARN of a workflow."""
    return f"WORKFLOW_{name.upper()}"


def retention_variable(name: str) -> str:
    """Return the environment variable that holds the retention of a durable function, in days."""
    return f"ONCE_RETENTION_DAYS_{name.upper()}"


class Record:
    """Attribute names of the dedup record, and of the sequence items beside it."""

    PK = "pk"
    SCHEMA = "schema"
    STATE = "state"
    FINGERPRINT = "fingerprint"
    COMMIT = "commit"
    EVENT_TYPE = "event_type"
    CAUSE = "cause"
    """The dedup key of the record that published the event; only for events of consumers."""
    OUTCOME = "outcome"
    REFUSAL = "refusal"
    COMMITTED_AT = "committed_at"
    EXPIRES_AT = "expires_at"
    ANSWER = "answer"
    """The answer to a command: its status, headers and bytes; see `once.commands.answer`."""
    OUTBOX = "outbox"
    """The events to publish, as a JSON array of CloudEvents in one text."""
    SEQUENCED = "sequenced"
    """The types in the outbox that sequence items hold as well; the relay publishes those."""
    DEDUP_KEY = "dedup_key"
    """In a sequence item only: the key of the dedup record whose ordered events it holds."""
    EFFECT = "effect"
    PROVIDER_KEY = "provider_key"
    REQUEST = "request"
    KEY_EXPIRES_AT = "key_expires_at"
    OWNER = "owner"
    LEASE_UNTIL = "lease_until"
    STANDING = "standing"
    EFFECT_OUTCOME = "effect_outcome"
    """The outcome of a settled effect, as JSON; see `once.effects.executor`."""
    DECLARED = "declared"
    """Policy and shape of a pending effect's outcome, as JSON; see `once.effects.declaration`."""
    SETTLEMENT = "settlement"
    """Settlement of an effect by hand, as JSON: person, time and reason."""


class State(StrEnum):
    """State of a dedup record: `pending` while an effect's outcome is not known."""

    PENDING = "pending"
    DONE = "done"


class Standing(StrEnum):
    """State of the effect of a pending record."""

    IN_FLIGHT = "in-flight"
    """Its owner may be calling the provider. After the end of the lease, treated as unknown."""
    NOT_DONE = "not-done"
    """The effect certainly did not happen."""
    UNKNOWN = "unknown"
    """The effect may have happened."""
    SETTLED = "settled"
    """The outcome is known and kept in the record; it is committed without another call."""


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
    INVALID_CLAIM = "invalid-claim"
    CLAIM_MISSING = "claim-missing"
    KEY_CONFLICT = "key-conflict"
    TOO_LARGE = "too-large"
    INVALID_WRITE = "invalid-write"
    UNHANDLED_REFUSAL = "unhandled-refusal"
    PERMANENT = "permanent"
    WRONG_OUTCOME = "wrong-outcome"
    EFFECT_UNKNOWN = "effect-unknown"
    UNPUBLISHABLE = "unpublishable"
    NO_TYPE = "no-type"
    UNSUBSCRIBED_TYPE = "unsubscribed-type"
    TOO_MANY_ATTRIBUTES = "too-many-attributes"
    RETRIES_EXHAUSTED = "retries-exhausted"
    NOT_TRIED = "not-tried"
    UNFINISHED = "unfinished"
    FORMER_UNFINISHED = "former-unfinished"


class DeadLetterAttribute:
    """Message attribute names of a dead letter. SQS allows ten attributes a message."""

    REASON = "once-reason"
    ERROR = "once-error"
    CONSUMER = "once-consumer"
    KEY = "once-key"
    """The dedup key; written by `once.failures.quarantine.key_text`."""
    FIRST_SEEN = "once-first-seen"
    RECEIVE_COUNT = "once-receive-count"
    LINEAGE = "once-lineage"
    GROUP = "once-group"
    """Message group in the consumer's FIFO queue, and the place there; see `quarantine.Place`."""
    OUTCOME = "once-outcome"
    """Outcome of an effect that was done at most once, if its record could not keep it: as JSON in
    the form of `once.effects.executor`. It takes the place of the consumer, whom the key names."""
    ATTRIBUTES = "once-attributes"
    """The attributes of the message, as JSON in the form of Lambda's event."""
    ORIGINAL_GZIP = "once-original-gzip"
    """Body and attributes, compressed, if they exceed SQS's limit together with the reason."""
    LEFT_OUT = "once-left-out"
    """The part that does not fit even compressed: usually the producer's `attributes`."""


OUTCOME_BYTES = 32 * 1024
"""Largest outcome of an effect that is done at most once, as `once-outcome` holds it."""


class StackOutput:
    """Keys of the stacks' outputs by which the operator's tools find the deployed resources."""

    INGRESS_TOPIC = "IngressTopicArn"
    EVENTS_TOPIC = "EventsTopicArn"
    ORDERED_INGRESS_TOPIC = "OrderedIngressTopicArn"
    ORDERED_EVENTS_TOPIC = "OrderedEventsTopicArn"
    RELAY_FUNCTION = "RelayFunction"  # not `Function…`: each key of that form is a consumer's
    RELAY_DEAD_LETTERS = "RelayDeadLetters"
    SCHEDULE_GROUP = "ScheduleGroup"
    """Name of the schedule group with the due events that wait."""
    UNROUTED_QUEUE = "UnroutedQueue"
    SWEEP_QUEUE = "SweepQueue"
    DEDUP_TABLE = "DedupTable"
    OPERATOR_LOG = "OperatorLog"
    CLAIM_BUCKET = "ClaimBucket"
    FURTHER_STACKS = "FurtherStacks"
    """Names of the stacks with further consumers, with commas between them."""
    WEBHOOK_URL = "WebhookUrl"
    WEBHOOK_FUNCTION = "WebhookFunction"
    WEBHOOK_ENDPOINTS = "WebhookEndpoints"
    """The endpoints, as `once.webhooks.endpoint` writes them."""
    CAPTURES = "Captures"
    """The table of captures."""

    # Prefixes; the name of a line or table follows, in the form of `once.cdk.output_key`.
    COMMANDS_FUNCTION = "CommandsFunction"
    COMMANDS = "CommandsNames"
    """The commands of a function, with commas between them."""
    COMMANDS_URL = "CommandsUrl"
    """Address of its HTTP API, before the path of a route."""
    QUEUE = "Queue"
    ISOLATION_QUEUE = "Isolation"
    DEAD_LETTERS = "DeadLetters"
    FUNCTION = "Function"
    EVENT_TYPES = "Takes"
    QUEUE_RULES = "RulesOfQueue"
    """Of an existing queue, as JSON: values that its attributes must have; see `QueueRule`."""
    IDENTITY = "Identity"
    TABLE = "Table"
    ENDPOINT_SECRET = "EndpointSecret"  # noqa: S105 - the name of an output
    """ARN of the secret of an endpoint of webhooks."""


class QueueRule:
    """Rules of an existing queue, by SQS's names. Higher values are right but for the retention."""

    VISIBILITY = "VisibilityTimeout"
    RETENTION = "MessageRetentionPeriod"
    RECEIVES = "maxReceiveCount"
    """Of its redrive policy, if it has one."""


class ExternalOutput(StrEnum):
    """Outputs for the tool that makes a consumer's function; the consumer's name comes first."""

    SETTINGS = "Settings"
    """Value of the variable `ONCE_SETTINGS`."""
    POLICY = "PolicyArn"
    """ARN of the managed policy for the function's role."""
    QUEUE = "QueueArn"
    ISOLATION_QUEUE = "IsolationQueueArn"
    DEMANDS = "Demands"
    """JSON: what a line demands of its function and mappings, by the names of Lambda's API."""
    VARIABLE = "Variable"
    """Value of another variable that its handlers read; the variable's name follows."""


class Metric:
    """Names of the metrics. Their only dimension is `service`, unless stated otherwise."""

    NAMESPACE = "Once"
    COMMITTED = "Committed"
    REFUSED = "Refused"
    REDELIVERED = "DuplicatesRedelivered"
    """SQS redelivered a message whose event had committed."""
    REDRIVEN = "DuplicatesRedriven"
    """A dead letter was redriven whose event had committed."""
    RESENT = "DuplicatesResent"
    """The producer, or the topic, sent an event in two messages."""
    RETRIED = "Retried"
    QUARANTINED = "Quarantined"
    """By `service`; and once more by `service` and `reason`."""
    ISOLATED = "Isolated"
    """Messages that were moved to the isolation queue, where each runs alone."""
    TEST_MESSAGES = "TestMessages"
    """Messages without an event, by which a service tests the queue."""
    CONFLICTS = "Conflicts"
    """Attempts to commit that conflicted with other writers."""
    GROUP_SIZE = "GroupSize"
    """Average number of messages in the requests of an invocation that committed."""
    COMMIT_MS = "CommitLatency"
    """Duration of the slowest request of an invocation that committed."""
    EFFECTS_DONE = "EffectsDone"
    EFFECTS_NOT_DONE = "EffectsNotDone"
    EFFECTS_UNANSWERED = "EffectsUnanswered"
    """Effects whose outcome is unknown, and that are retried."""
    EFFECTS_UNKNOWN = "EffectsUnknown"
    """Effects whose outcome is unknown, and that only a person can settle."""
    PENDING_SECONDS = "PendingEffectAge"
    """Age of a pending effect that a later delivery finds."""
    BREAKER_OPEN = "BreakerOpen"
    """Messages that were not attempted because a dependency fails."""
    RELAY_LAG_MS = "RelayLag"
    """Time from the commit to the topic, for the slowest event of a batch."""
    PUBLISHED = "EventsPublished"
    DUE_CREATED = "DueEventsCreated"
    """Events that the relay has handed to EventBridge Scheduler, to be published later."""
    DUE_LATE_MS = "DueEventLateness"
    """Time from the due time of an event to its read by a consumer, for the latest of a batch."""
    COMMANDS_COMMITTED = "CommandsCommitted"
    """Commands that took effect, refusals not counted."""
    COMMANDS_REFUSED = "CommandsRefused"
    """Commands whose business refusal was committed."""
    COMMANDS_REPEATED = "CommandsRepeated"
    """Requests that were given the stored answer of an earlier one."""
    COMMAND_CONFLICTS = "CommandConflicts"
    """Requests with the key of an earlier command and other content."""
    COMMANDS_INVALID = "CommandsInvalid"
    """Requests without a key, or whose data does not fit the command."""
    COMMANDS_FAILED = "CommandsFailed"
    """Commands without an answer: an error of the handler, contention, or an unknown outcome."""
    COMMAND_MS = "CommandLatency"
    """Duration of a command, from its data to its answer."""
    WEBHOOKS_TAKEN = "WebhooksTaken"
    """Webhooks that were captured for the first time."""
    WEBHOOK_DUPLICATES = "WebhookDuplicates"
    WEBHOOKS_FORGED = "WebhooksForged"
    """Requests without a valid signature: nothing of them is kept."""
    WEBHOOKS_STALE = "WebhooksStale"
    """Requests with a valid signature whose time is too long ago or too far ahead."""
    WEBHOOKS_TOO_LARGE = "WebhooksTooLarge"
    WEBHOOK_CONFLICTS = "WebhookConflicts"
    """Webhooks with the id of another and other content: captured, and not handed on."""
    WEBHOOKS_UNREADABLE = "WebhooksUnreadable"
    """Webhooks whose body is not strict JSON: captured, and not handed on."""
    WEBHOOKS_UNPUBLISHABLE = "WebhooksUnpublishable"
    """Webhooks whose event no topic or consumer could take: captured, and not handed on."""
    WEBHOOK_HANDSHAKES = "WebhookHandshakes"
    """Requests by which a provider confirms an address: answered, and not kept."""
    WEBHOOKS_MISADDRESSED = "WebhooksMisaddressed"
    """Requests to a path without an endpoint, or with another method than POST."""
    WEBHOOK_MS = "WebhookLatency"
    """Time from the start of the function to its answer, for webhooks and their duplicates."""
    WEBHOOKS_FAILED = "WebhooksFailed"
    """Webhooks that could not be captured: the provider sends them again."""
    WEBHOOKS_NOT_HANDED_ON = "WebhooksNotHandedOn"
    """The failed ones, conflicts, and those that are unreadable or unpublishable, once more: one
    metric for their alarm, since CloudWatch charges an alarm for each metric."""
    WEBHOOKS_REJECTED = "WebhooksRejected"
    """The forged, stale and too large ones, once more, for their alarm."""


class Limits:
    """Limits that AWS documents. Sizes in bytes, times in seconds."""

    TRANSACTION_ACTIONS = 100
    TRANSACTION_BYTES = 4 * 1024 * 1024
    BATCH_GET_KEYS = 100
    ITEM_BYTES = 400 * 1024
    PARTITION_KEY_BYTES = 2048
    SORT_KEY_BYTES = 1024
    NAME_BYTES = 64 * 1024 - 1
    """Of an attribute."""
    NESTING = 31
    """Lists and maps around a value; AWS counts the value as the 32nd level."""
    EXPRESSION_BYTES = 4096
    OPERATORS = 300
    """In a condition, functions included."""
    OPTIONS = 100
    """Of the operator `IN`."""
    MESSAGE_BYTES = 1024 * 1024
    """Of one message to SQS and of one batch alike, attributes included."""
    MESSAGE_ATTRIBUTES = 10
    QUEUE_BATCH = 10
    TOPIC_MESSAGE_BYTES = 256 * 1024
    """Of one message and of one batch alike, attributes included: the default of a topic, which
    ours keep (docs/adr/0043)."""
    TOPIC_BATCH = 10
    ENVIRONMENT_BYTES = 4096
    """Of all environment variables of a function, names included."""
    PARAMETER_BYTES = 8192
    """Of an advanced parameter in Parameter Store; a standard one takes half."""
    SCHEDULE_INPUT_BYTES = 256 * 1000
    """Largest input of a schedule of EventBridge Scheduler; AWS says 256 KB."""
    FILTER_VALUES = 150
    """Event types that the filter policy of one subscription selects, or excludes."""
    FILTER_POLICIES = 200
    """Of one topic, by default."""
    FIFO_SUBSCRIPTIONS = 100
    """Of one FIFO topic."""
    VISIBILITY_SECONDS = 12 * 60 * 60
    MIN_RECEIVE_COUNT = 5
    MAX_RECEIVE_COUNT = 1000
    """Of a redrive policy."""
    VISIBILITY_FACTOR = 6
    QUEUE_RETENTION_SECONDS = 4 * 24 * 60 * 60
    QUEUE_STAY_SECONDS = 2 * QUEUE_RETENTION_SECONDS
    """In a consumer's queue and then in its isolation queue, each with the retention above."""
    DEAD_LETTER_RETENTION_SECONDS = 14 * 24 * 60 * 60
