"""Every call site of the real code, frozen: a new one is noticed until it is listed here.

A site is a function that makes a call, and the operation of the service that it calls.
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
    "once.commit._record_lookup._items dynamodb.BatchGetItem",
    "once.commit.committer.Committer.commit dynamodb.TransactWriteItems",
    "once.effects.ledger.EffectLedger._change dynamodb.TransactWriteItems",
    "once.failures.quarantine.Quarantine.send sqs.SendMessage",
    "once.failures.visibility_backoff.Backoff.apply sqs.ChangeMessageVisibility",
    "once.handlers.item_reader.ItemReader.read dynamodb.GetItem",
    "once.outbox._sns_publisher.Publisher._attempt sns.PublishBatch",
    "once.outbox.stream_relay.Relay._dead_letter sqs.SendMessage",
    "ops.dedup_table.DedupTable._read dynamodb.BatchGetItem",
    "ops.records.with_outbox dynamodb.Scan",
    "ops.redrive.Redriver._call.<locals>.<lambda> sqs.SendMessageBatch",
    "ops.redrive.delete.<locals>.<lambda> sqs.DeleteMessageBatch",
    "ops.walk.Walk._give_back sqs.ChangeMessageVisibilityBatch",
    "ops.walk.Walk._receive sqs.ReceiveMessage",
)
"""Those at which every kind of fault is tried."""

LEFT_OUT = {
    "once.outbox.unrouted.Sweep._keep sqs.SendMessage": (
        "this world has no sweep queue: a message that is not kept stays there, "
        "tests/unit/test_unrouted.py"
    ),
    "ops.dedup_table.DedupTable._pages dynamodb.Scan": "`trace` and `dlq show` only read",
    "ops.deployment._stack cloudformation.DescribeStacks": "only reads, before anything else",
    "ops.log_lines.Logs.lines logs.FilterLogEvents": "`trace` only reads",
    "ops.publish.to_queue.<locals>.call sqs.SendMessageBatch": (
        "`send` is a producer: what it sends twice, or not, is traffic like any other"
    ),
    "ops.publish.to_topic.<locals>.call sns.PublishBatch": (
        "`orders` is a producer: what it sends twice, or not, is traffic like any other"
    ),
    "ops.queues.depth sqs.GetQueueAttributes": "`status` only reads",
    "ops.queues.oldest_seconds cloudwatch.GetMetricData": "`status` only reads",
    "ops.records.approximate_count dynamodb.DescribeTable": "only reads, for a progress bar",
    "ops.relay_function.RelayFunction.__call__ lambda.Invoke": (
        "there is no Lambda in this world: the relay's own calls are tried, whoever invokes it"
    ),
    "ops.stock._put_new dynamodb.PutItem": "stocks the shop before its first order",
    "ops.to_consumer.sender.<locals>.send.<locals>.<lambda> sqs.SendMessageBatch": (
        "sends events again that lie in the table: a fault ends the command, which is run again"
    ),
    "ops.unrouted.publish_to.<locals>.call sns.PublishBatch": (
        "this world has no unrouted queue; tests/ops/test_dlq_unrouted.py"
    ),
    "ops.walk.Walk.hold sqs.ChangeMessageVisibility": (
        "keeps a letter hidden while a person edits it; tests/ops/test_dlq_edit.py"
    ),
}
"""Those at which none is, each with the reason."""

_LIST = "proof/crashpoints/sites.py"
_NEW = (
    f"reach it by a scenario of proof/crashpoints/scenarios.py, and list it in EXPLORED of {_LIST}"
)


def unlisted_in_source(calls: Iterable[str]) -> list[str]:
    """Return what is wrong with the lists, given the calls that stand in the source."""
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
    """Return what is wrong with the list, given the places that all runs came to."""
    come_to = {*places}
    new = [f"{place} was come to, and is not listed: {_NEW}" for place in come_to - {*EXPLORED}]
    missed = [
        f"{place} is listed, and no scenario comes to it: write one in "
        f"proof/crashpoints/scenarios.py, or take the place out of {_LIST}"
        for place in {*EXPLORED} - come_to
    ]
    return sorted(new + missed)


def _without_service(place: str) -> str:
    function, _, call = place.partition(" ")
    return f"{function} {call.partition('.')[2]}"
