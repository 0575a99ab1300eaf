"""The list of all call sites of the real code. A site that is not listed fails `make crashpoints`.

A site is a function, and the service's operation that it calls.
"""

from collections.abc import Iterable

EXPLORED = (
    "functions.notifications.mail.send email.SendEmail",
    "functions.payments.provider._api_key secretsmanager.GetSecretValue",
    "functions.payments.provider.charge payments.GET /v1/payment_intents",
    "functions.payments.provider.charge payments.POST /v1/payment_intents",
    "functions.payments.provider.find_charge payments.GET /v1/charges",
    "once.batch.isolation.Isolation._delete sqs.DeleteMessageBatch",
    "once.batch.isolation.Isolation._sent sqs.SendMessageBatch",
    "once.commit.committer.Committer._send dynamodb.TransactWriteItems",
    "once.commit.dedup_record.read_items dynamodb.BatchGetItem",
    "once.commit.item_dedup.ItemCommitter._send dynamodb.PutItem",
    "once.commit.item_dedup.ItemCommitter._send dynamodb.UpdateItem",
    "once.effects.ledger.EffectLedger._change dynamodb.TransactWriteItems",
    "once.effects.workflows._start_durable_execution lambda.Invoke",
    "once.effects.workflows._start_execution states.DescribeExecution",
    "once.effects.workflows._start_execution states.StartExecution",
    "once.events.claim_check.ClaimStore.read s3.GetObject",
    "once.events.claim_check.ClaimStore.write s3.PutObject",
    "once.failures.failure_handler.FailureHandler._delay sqs.ChangeMessageVisibility",
    "once.failures.quarantine.Quarantine.send sqs.SendMessage",
    "once.ops.dead_letters.redrive.Redrive._sent.<locals>.<lambda> sqs.SendMessageBatch",
    "once.ops.dead_letters.search.QueueWalk._change sqs.ChangeMessageVisibilityBatch",
    "once.ops.dead_letters.search.QueueWalk._receive sqs.ReceiveMessage",
    "once.ops.dead_letters.search.QueueWalk.delete.<locals>.<lambda> sqs.DeleteMessageBatch",
    "once.ops.dedup_records.DedupRecordReader._read dynamodb.BatchGetItem",
    "once.ops.dedup_records.DedupRecordReader.scan_outboxes dynamodb.Scan",
    "once.outbox.relay.Publisher._attempt sns.PublishBatch",
    "once.outbox.relay.Relay._dead_letter sqs.SendMessage",
    "once.transaction.read_item dynamodb.GetItem",
    "once.webhooks.signature.SecretCache._version secretsmanager.GetSecretValue",
)
"""The sites at which every kind of fault is tried."""

_SENT_BY_A_PERSON = "a producer: after a lost answer it names the id with which to send again"
_OPERATOR_LOG = "before a change, and without it nothing is changed; tests/ops/test_operator_log.py"
_CAPTURES = "`webhooks` only reads captures, before anything else"
LEFT_OUT = {
    "demo.traffic.command.stock_articles.<locals>.put_new dynamodb.PutItem": (
        "stocks the shop before its first order"
    ),
    "demo.traffic.publisher.to_queue.<locals>.call sqs.SendMessageBatch": (
        "`send` is a producer: what it sends twice, or not, is traffic like any other"
    ),
    "demo.traffic.publisher.to_topic.<locals>.call sns.PublishBatch": (
        "`orders` is a producer: what it sends twice, or not, is traffic like any other"
    ),
    "demo.traffic.sample_events._publish sns.Publish": (
        "sends the sample events of further consumers, each several times"
    ),
    "once.ops.aws.clients.depth sqs.GetQueueAttributes": "`status` only reads",
    "once.ops.aws.clients.oldest_message_seconds cloudwatch.GetMetricData": ("`status` only reads"),
    "once.ops.aws.deployment.Deployment.find cloudformation.DescribeStacks": (
        "only reads, before anything else"
    ),
    "once.ops.aws.function_logs.log_events logs.FilterLogEvents": (
        "`status`, `trace` and a page only read"
    ),
    "once.ops.console.audit_log.read_changes logs.FilterLogEvents": "a page only reads",
    "once.ops.console.figures._metric_points cloudwatch.GetMetricData": "a page only reads",
    "once.ops.dead_letters.export.LetterImport._send.<locals>.<lambda> sqs.SendMessageBatch": (
        "an import that is killed is repeated: it sends no letter that is there already, "
        "tests/ops/dead_letters/test_export.py"
    ),
    "once.ops.dead_letters.redrive._publisher.<locals>.publish sns.PublishBatch": (
        "this world has no unrouted queue; tests/ops/dead_letters/test_unrouted.py"
    ),
    "once.ops.dedup_records.DedupRecordReader.approximate_count dynamodb.DescribeTable": (
        "only reads, for a progress bar"
    ),
    "once.ops.dedup_records.DedupRecordReader.scan_some dynamodb.Scan": "only reads, for lists",
    "once.ops.effects.settle sts.GetCallerIdentity": "only reads, before the change",
    "once.ops.effects.write_intent dynamodb.TransactWriteItems": (
        "one fenced write, in the exploration's scope `e-mail settled by hand`; a lost answer is "
        "read back, tests/ops/test_effects.py"
    ),
    "once.ops.operator_log._write logs.PutLogEvents": _OPERATOR_LOG,
    "once.ops.operator_log.logged_change logs.CreateLogStream": _OPERATOR_LOG,
    "once.ops.operator_log.logged_change sts.GetCallerIdentity": _OPERATOR_LOG,
    "once.ops.outbox.invoke_relay lambda.Invoke": (
        "there is no Lambda in this world: the relay's own calls are tried, whoever invokes it"
    ),
    "once.ops.outbox.queue_sender.<locals>.send.<locals>.<lambda> sqs.SendMessageBatch": (
        "sends events again that lie in the table: a fault ends the command, which is run again"
    ),
    "once.ops.send._stored_if_large s3.PutObject": _SENT_BY_A_PERSON,
    "once.ops.send.send sns.Publish": _SENT_BY_A_PERSON,
    "once.ops.send.send sqs.SendMessage": _SENT_BY_A_PERSON,
    "once.ops.webhooks._send._secret secretsmanager.GetSecretValue": (
        "only reads, before a test webhook is sent"
    ),
    "once.ops.webhooks.captures.Captures._get dynamodb.GetItem": _CAPTURES,
    "once.ops.webhooks.captures.Captures._part dynamodb.Query": _CAPTURES,
    "once.ops.webhooks.replay.QueueTarget.send sqs.SendMessage": (
        "sends an event again under its key: a consumer that has committed it finds a duplicate, "
        "tests/ops/webhooks/test_replay.py"
    ),
    "once.outbox.unrouted.Sweep._sweep sqs.SendMessage": (
        "this world has no sweep queue: a message that is not kept stays there, "
        "tests/once/outbox/test_unrouted.py"
    ),
}
"""The other sites, with the reason."""

_LIST = "proof/crashpoints/sites.py"
_NEW = f"reach it by a case of proof/crashpoints/cases.py, and list it in EXPLORED of {_LIST}"


def unlisted_in_source(calls: Iterable[str]) -> list[str]:
    """Return the differences between the lists and the calls in the source."""
    listed = {*map(_without_service, (*EXPLORED, *LEFT_OUT))}
    new = [
        f"{call} stands in the source and in no list: {_NEW}, or in LEFT_OUT with a reason"
        for call in sorted({*calls} - listed)
    ]
    gone = [
        f"{call} is listed, and stands in the source no more: take it out of {_LIST}"
        for call in sorted(listed - {*calls})
    ]
    return new + gone


def unlisted_in_runs(places: Iterable[str]) -> list[str]:
    """Return the differences between the list and the places that were reached."""
    reached = {*places}
    new = [f"{place} was reached, and is not listed: {_NEW}" for place in reached - {*EXPLORED}]
    missed = [
        f"{place} is listed, and no case reaches it: write one in "
        f"proof/crashpoints/cases.py, or take the place out of {_LIST}"
        for place in {*EXPLORED} - reached
    ]
    return sorted(new + missed)


def _without_service(place: str) -> str:
    function, _, call = place.partition(" ")
    return f"{function} {call.partition('.')[2]}"
