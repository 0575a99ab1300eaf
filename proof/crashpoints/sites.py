"""The list of all call sites of the real code. A site that is not listed fails `make crashpoints`.

A site is a function, and the service's operation that it calls. Those in the source are found by
its syntax tree: a method of an AWS client is recognized by its name, and by having keyword
arguments alone.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import botocore.session
from botocore import xform_name

from proof.report import ROOT

EXPLORED = (
    "functions.notifications.mail.send email.SendEmail",
    "functions.payments.provider._api_key secretsmanager.GetSecretValue",
    "functions.payments.provider.charge payments.GET /v1/payment_intents",
    "functions.payments.provider.charge payments.POST /v1/payment_intents",
    "functions.payments.provider.find_charge payments.GET /v1/charges",
    "once.batch.isolation.Isolation._delete sqs.DeleteMessageBatch",
    "once.batch.isolation.Isolation._sent sqs.SendMessageBatch",
    "once.business_tables.read_item dynamodb.GetItem",
    "once.commit.committer.Committer._send dynamodb.TransactWriteItems",
    "once.commit.dedup_record.read_items dynamodb.BatchGetItem",
    "once.commit.item_dedup.PlainWriteCommitter._send dynamodb.PutItem",
    "once.commit.item_dedup.PlainWriteCommitter._send dynamodb.UpdateItem",
    "once.effects.ledger.EffectLedger._change dynamodb.TransactWriteItems",
    "once.effects.workflow_starts._start_durable_execution lambda.Invoke",
    "once.effects.workflow_starts._start_execution states.DescribeExecution",
    "once.effects.workflow_starts._start_execution states.StartExecution",
    "once.events.claim_check.ClaimStore.read s3.GetObject",
    "once.events.claim_check.ClaimStore.write s3.PutObject",
    "once.failures.failure_handler.FailureHandler._delay sqs.ChangeMessageVisibility",
    "once.failures.quarantine.Quarantine.send sqs.SendMessage",
    "once.ops.dead_letters.redrive.Redrive._sent.<locals>.<lambda> sqs.SendMessageBatch",
    "once.ops.dead_letters.queue_walk.QueueWalk._change sqs.ChangeMessageVisibilityBatch",
    "once.ops.dead_letters.queue_walk.QueueWalk._receive sqs.ReceiveMessage",
    "once.ops.dead_letters.queue_walk.QueueWalk.delete.<locals>.<lambda> sqs.DeleteMessageBatch",
    "once.ops.dedup_records.DedupRecordReader._read dynamodb.BatchGetItem",
    "once.ops.dedup_records.DedupRecordReader.scan_outboxes dynamodb.Scan",
    "once.outbox.due_events.DueEvents._attempt scheduler.CreateSchedule",
    "once.outbox.publisher.Publisher._attempt sns.PublishBatch",
    "once.outbox.relay.Relay._dead_letter sqs.SendMessage",
    "once.webhooks.signature.SecretCache._version secretsmanager.GetSecretValue",
)
"""The sites at which every kind of fault is tried."""

_OTHERS: dict[str, tuple[str, ...]] = {
    "calls of an effect like those of a charge, which are tried; a second refund is refused, and "
    "found, tests/functions/test_payments.py": (
        "functions.payments.provider.find_refund payments.GET /v1/refunds",
        "functions.payments.provider.refund payments.POST /v1/refunds",
    ),
    "only reads, when a function starts: Lambda starts it again, tests/once/test_settings.py": (
        "once.settings._parameter ssm.GetParameter",
    ),
    "before a change, and without it nothing is changed; tests/ops/test_operator_changes.py": (
        "once.ops.operator_changes._write logs.PutLogEvents",
        "once.ops.operator_changes.logged_change logs.CreateLogStream",
    ),
    "a producer: after a lost answer it names the id with which to send again": (
        "once.ops.send._send_to sqs.SendMessage",
        "once.ops.send._stored s3.PutObject",
    ),
    "a purge that is killed is repeated: it deletes what is archived with its note alone, "
    "tests/ops/dead_letters/test_kills.py": (
        "once.ops.dead_letters.archive.Archives._update dynamodb.TransactWriteItems",
    ),
    "an import that is killed is repeated: it sends no dead letter that is there already, "
    "tests/ops/dead_letters/test_archive.py": (
        "once.ops.dead_letters.archive.MessageImport._send.<locals>.<lambda> sqs.SendMessageBatch",
    ),
    "a note of an operator is one attribute, written again by the same command; of a pause that is "
    "killed, `once status` names the difference, tests/ops/test_pausing.py": (
        "once.ops.operator_notes._write dynamodb.TransactWriteItems",
        "once.ops.pausing.switch_mappings lambda.UpdateEventSourceMapping",
    ),
    "one fenced write, in the exploration's scope `e-mail settled by hand`; a lost answer is read "
    "back, tests/ops/test_effects.py": (
        "once.ops.pending_effects.write_intent dynamodb.TransactWriteItems",
    ),
    "there is no Lambda in this world: the relay's own calls are tried, whoever invokes it": (
        "once.ops.republication.invoke_relay lambda.Invoke",
    ),
    "sends events again that lie in the table: a fault ends the command, which is run again": (
        "once.ops.republication.queue_sender.<locals>.send.<locals>.<lambda> sqs.SendMessageBatch",
    ),
    "a step of a takeover, which is read before it is done and may be repeated, "
    "tests/ops/test_region_takeover.py": (
        "once.ops.region_takeover.Fence.close iam.PutRolePolicy",
        "once.ops.region_takeover.Fence.lift iam.DeleteRolePolicy",
    ),
    "each write has a condition; an event whose record was deleted, and that was not sent, is "
    "found absent, tests/ops/test_region_reconciliation.py": (
        "once.ops.region_reconciliation.Reconciliation._write dynamodb.TransactWriteItems",
    ),
    "sends an event again under its key: a consumer that has committed it finds a duplicate, "
    "tests/ops/webhooks/test_replay.py": (
        "once.ops.webhooks.replay.QueueTarget.send sqs.SendMessage",
    ),
    "this world has no sweep and no unrouted queue: a message that is not kept stays there, "
    "tests/once/outbox/test_unrouted.py, tests/ops/dead_letters/test_unrouted.py": (
        "once.ops.dead_letters.redrive._publisher.<locals>.publish sns.PublishBatch",
        "once.outbox.unrouted.FurtherRoutes._text ssm.GetParameter",
        "once.outbox.unrouted.Sweep._sweep sqs.SendMessage",
    ),
}
LEFT_OUT = {site: reason for reason, sites in _OTHERS.items() for site in sites}
"""The other sites, with the reason. A command of the operator may read where it likes."""
_READS = re.compile(r"once\.ops\..* (Get|List|Describe|Filter|Query|Scan|BatchGet)")

_LIST = "proof/crashpoints/sites.py"
_NEW = f"reach it by a case of proof/crashpoints/cases.py, and list it in EXPLORED of {_LIST}"


def unlisted_in_source(calls: Iterable[str]) -> list[str]:
    """Return the differences between the lists and the calls in the source."""
    places = (place.partition(" ") for place in (*EXPLORED, *LEFT_OUT))
    listed = {f"{function} {call.partition('.')[2]}" for function, _, call in places}
    found = {call for call in calls if call in listed or not _READS.match(call)}
    new = f"stands in the source and in no list: {_NEW}, or in LEFT_OUT with a reason"
    gone = f"is listed, and stands in the source no more: take it out of {_LIST}"
    return _differences(found, listed, new, gone)


def unlisted_in_runs(places: Iterable[str]) -> list[str]:
    """Return the differences between the list and the places that were reached."""
    missed = (
        "is listed, and no case reaches it: write one in proof/crashpoints/cases.py, or take the "
        f"place out of {_LIST}"
    )
    new = f"was reached, and is not listed: {_NEW}"
    return _differences({*places}, {*EXPLORED}, new, missed)


def _differences(found: set[str], listed: set[str], new: str, missed: str) -> list[str]:
    only = [(found - listed, new), (listed - found, missed)]
    return [f"{place} {text}" for places, text in only for place in sorted(places)]


PACKAGES = ("once", "functions")
_PAGES = ("get_paginator", "get_waiter")
_HTTP = {"stripe", "requests", "httpx"}
_SECRETS = "SecretsProvider"
_STRIPE = {"create": "POST", "update": "POST", "list": "GET", "retrieve": "GET"}


def calls_in_source(root: Path = ROOT) -> set[str]:
    """Return the calls of the packages in a folder, each as `module.function Operation`.

    Raises:
        ValueError: an unknown method of Stripe; the error says what to do.
    """
    trees: dict[str, ast.Module] = {}
    for file in sorted(file for package in PACKAGES for file in (root / package).rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        if not module.startswith("once.testing"):  # not deployed
            trees[module.removesuffix(".__init__")] = ast.parse(file.read_text())
    nodes = {module: [*ast.walk(tree)] for module, tree in trees.items()}
    services = {
        _text(node.args)
        for node in chain(*nodes.values())
        if isinstance(node, ast.Call) and _names(node.func)[-1:] in (["client"], ["_client"])
    }
    methods = _methods(frozenset(services - {""}))
    getters = {
        module: {
            each.name
            for each in found
            if isinstance(each, ast.FunctionDef)
            if each.returns and ast.unparse(each.returns).endswith(_SECRETS)
        }
        for module, found in nodes.items()
    }
    return {
        f"{function} {operation}"
        for module, tree in trees.items()
        for function, call in _calls(tree, [module])
        if (operation := _operation(call, methods, getters[module]))
    }


@cache
def _methods(services: frozenset[str]) -> dict[str, str]:
    """Return the operation of each method of the services' clients."""
    session = botocore.session.get_session()
    models = [session.get_service_model(name) for name in sorted(services)]
    operations = [operation for model in models for operation in model.operation_names]
    return {xform_name(operation): operation for operation in operations}


def _calls(node: ast.AST, within: list[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call below a node, with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        names: list[str] = []
        match child:
            case ast.Call():
                yield ".".join(within).removesuffix(".<locals>"), child
            case ast.ClassDef(name=name):
                names = [name]
            case ast.FunctionDef(name=name):
                names = [name, "<locals>"]
            case ast.Lambda():
                names = ["<lambda>", "<locals>"]
        yield from _calls(child, [*within, *names])


def _operation(call: ast.Call, methods: dict[str, str], secrets: set[str]) -> str | None:
    names = _names(call.func)
    match names:
        case [*_, method] if method in _PAGES:
            return methods[_text(call.args)]
        case [*_, "v1", resource, method] if method in _STRIPE:
            return f"{_STRIPE[method]} /v1/{resource}"
        case [*_, "v1", resource, method]:
            raise ValueError(
                f"{resource}.{method} is an unknown call of Stripe: add its HTTP method to "
                "_STRIPE of proof/crashpoints/sites.py"
            )
        case [library, *_, method] if library in _HTTP and method.islower():
            return ".".join(names)
        case [*_, "urlopen"]:
            return "urlopen"
        case [function, "get"] if function in secrets:
            return "GetSecretValue"
        case [*_, method] if not call.args:
            return methods.get(method)
    return None


def _names(function: ast.expr) -> list[str]:
    """Return the parts of a dotted expression; a call in it counts as its function."""
    match function:
        case ast.Name():
            return [function.id]
        case ast.Attribute():
            return [*_names(function.value), function.attr]
        case ast.Call():
            return _names(function.func)
    return []


def _text(arguments: list[ast.expr]) -> str:
    """Return the first argument if it is a string; empty otherwise."""
    match arguments:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return ""
