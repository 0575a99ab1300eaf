"""Public names and signatures: a change of one is a change for users of the library."""

import ast
import importlib
import inspect
from dataclasses import fields
from typing import Any

import pytest

import once
import once.cdk
import once.testing
from once.cdk import (
    ConsumerProps,
    CustomerKey,
    CustomerKeys,
    DeploymentConfig,
    Endpoint,
    ExistingQueue,
    ExistingTable,
    Network,
    Registry,
    Stage,
    TableProps,
    WebhookProps,
)
from once.transaction import Terms, UpdateTerms
from stacks.folders import ROOT

NAMES = {
    "once": {
        *(
            "Call",
            "CloudEvent",
            "Consumer",
            "FormerRecords",
            "Key",
            "KeySpent",
            "NotDone",
            "PermanentError",
        ),
        *("Policy", "Refusal", "RetryableError", "S3Object", "Source", "Step", "Transaction"),
        *("absent", "present"),
        *("durable_function", "state_machine"),
    },
    "once.cdk": {
        *("ConsumerProps", "DedupTable", "DeploymentConfig", "IdempotentConsumer", "OutboxRelay"),
        *("RelayFailures", "RetainedTable", "StackOutput", "SynthError", "TableProps", "Topics"),
        *("OperatorLog", "OperatorPolicies", "Rollout", "Source", "stack_size_faults"),
        *("UnroutedEvents", "acknowledge_finding", "add_table_alarms", "consumer_set_faults"),
        *("deployment_faults", "event_sources", "event_types_output", "make_alarm_topic", "notify"),
        *("output_key", "tables_row", "unmanaged_mapping_faults"),
        *("ClaimBucket", "Dedup", "DeployedNames", "missing_name_faults", "published_types"),
        *("Pollers", "WarmThroughput", "DurableFunctionProps", "StateMachineProps"),
        *("WebhookIngress", "WebhookProps", "CaptureTable", "Endpoint", "hmac_profile"),
        *(
            "Registry",
            "ServiceStack",
            "FurtherStack",
            "StateStack",
            "assemble",
            "run_app",
            "synthesize",
        ),
        *("Stage", "Network", "CustomerKey", "CustomerKeys", "ExistingTable", "ExistingQueue"),
        *("GITHUB", "SHOPIFY", "SLACK", "STANDARD", "STRIPE"),
    },
    "once.testing": {
        *("FakeAws", "FakeContext", "Fault", "answer_lost", "cancelled", "cloud_event", "inject"),
        *("never_sent", "refused"),
    },
}

SIGNATURES = {
    "IdempotentConsumer": "scope, props, *, dedup_table, tables=None, secrets=None, queue=None, "
    "topics=None, unrouted=None, relay=None, sources=None, bucket=None, claims=None, config=None",
    "OutboxRelay": "scope, *, topics, publishes, dedup_table, failures=None, config=None",
    "UnroutedEvents": "scope, *, topics, consumers, webhooks=None, further={}, config=None",
    "OperatorPolicies": "scope, *, consumers, dedup_table, topics, relay, unrouted, "
    "operator_log, claims=None, captures=None, endpoint_secrets=(), "
    "further_stacks=(), shared=True, config=None",
    "WebhookIngress": "scope, props, *, dedup_table, captures, secrets, relay=None, claims=None, "
    "config=None",
    "CaptureTable": "scope, construct_id, **extra",
    "DedupTable": "scope, construct_id, warm_throughput=None, *, key=None",
    "OperatorLog": "scope, construct_id, *, key=None",
    "RetainedTable": "scope, construct_id, props, *, key=None, **extra",
    "RelayFailures": "scope, construct_id, *, key=None",
    "ClaimBucket": "scope, construct_id, config=None, webhooks=None",
    "StateStack": "scope, name, registry, *, config, **options",
    "ServiceStack": "scope, name, registry, *, config, state, further={}, **options",
    "FurtherStack": "scope, name, lines, registry, *, config, state, service, **options",
    "Topics": "ingress, events, ordered_ingress=None, ordered_events=None, groups=<factory>, "
    "fifo_dead_letters=True",
    "SynthError": "heading, faults",
}

FIELDS = {
    TableProps: "name key warm_throughput",
    ConsumerProps: "name events tables external publishes timeout_seconds visibility_seconds "
    "batch_size batch_window_seconds max_concurrency pollers reserved_concurrency "
    "claim_check_mb mapping_metrics max_receive_count effect_timeout_seconds "
    "effect_concurrency starts secrets "
    "parameters sends_email group_size commit_threads memory_mb snap_start rollout "
    "renamed_from fifo ordered_by blocks_group fair_by dedup retiring folder aws_services source",
    WebhookProps: "endpoints name folder aws_services capture_days http_api reserved_concurrency "
    "memory_mb timeout_seconds",
    Registry: "consumers file functions deployed webhooks webhooks_file",
    Endpoint: "name profile types prefix body_bytes trusts_id",
    DeploymentConfig: "service local dedup_window_days redrives provider_retry_days log_level "
    "group_commit gradual_rollout email_sender create_email_identity python_runtime "
    "dedup_warm_throughput ingress_publishers webhook_concurrency runtime_lock parameters tags "
    "network keys permissions_boundary layers otlp_endpoint existing_tables "
    "existing_queues fifo_topic_dead_letters keep_data consumers_per_stack external_functions "
    "faults",
    Stage: "name account region config",
    Network: "subnets security_groups endpoints",
    CustomerKey: "arn allows",
    CustomerKeys: "tables queues topics buckets logs secrets",
    ExistingTable: "arn key_arn stream_arn",
    ExistingQueue: "arn key_arn",
}


MEMBERS: dict[type, str] = {
    once.Consumer: "around bound_to completes effect handles lambda_handler rejects table",
    once.Transaction: "actions check delete get item_read perform publish put reads refused "
    "rendered update writes",
    once.Step: "deadline event_type key_hash kind message_id receive_count source",
    once.testing.FakeAws: "dead_letters deliver fails_at given items of published then",
}
WRITES: dict[str, Any] = {
    "add append condition if_not_exists names otherwise remove set": UpdateTerms,
    "condition names otherwise": Terms,
}


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: str(kind.__name__))
def test_a_class_has_exactly_these_members(kind: type) -> None:
    assert [name for name in dir(kind) if not name.startswith("_")] == MEMBERS[kind].split()


@pytest.mark.parametrize("names", WRITES)
def test_a_write_takes_exactly_these_options(names: str) -> None:
    assert sorted(WRITES[names].__optional_keys__) == names.split()


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_exactly_its_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == NAMES[package]
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert not hasattr(module, "Unknown")


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_construct_takes_exactly_these_arguments(name: str) -> None:
    parameters = inspect.signature(getattr(once.cdk, name).__init__).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name != "self"]
    assert str(inspect.Signature(plain)) == f"({SIGNATURES[name]})"


@pytest.mark.parametrize("props", FIELDS, ids=lambda props: str(props.__name__))
def test_properties_have_exactly_these_fields(props: type) -> None:
    assert [field.name for field in fields(props)] == FIELDS[props].split()


def test_the_shop_uses_the_constructs_by_their_public_names() -> None:
    files = [*(ROOT / "stacks").glob("*.py"), ROOT / "app.py"]
    found = {
        node.module
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("once")
    }
    assert found == {"once.cdk"}
