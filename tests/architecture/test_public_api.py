"""Public names: one that is taken away is a change for users of the library."""

import ast
import importlib

import pytest

from stacks.folders import ROOT

NAMES = {
    "once": "Call CloudEvent Consumer FormerRecords Key KeySpent NotDone PermanentError Policy "
    "Refusal RetryableError S3Object Source Step Transaction absent durable_function present "
    "state_machine",
    "once.cdk": "CaptureTable ClaimBucket ConsumerProps CustomerKey CustomerKeys Dedup DedupTable "
    "DeployedNames DeploymentConfig DurableFunctionProps Endpoint ExistingQueue ExistingTable "
    "FurtherStack GITHUB IdempotentConsumer Network OperatorLog OperatorPolicies OutboxRelay "
    "Pollers Registry RelayFailures RetainedTable Rollout SHOPIFY SLACK STANDARD STRIPE "
    "ServiceStack Source StackOutput Stage StateMachineProps StateStack SynthError TableProps "
    "Topics UnroutedEvents WarmThroughput WebhookIngress WebhookProps acknowledge_finding "
    "add_table_alarms assemble consumer_set_faults deployment_faults event_sources "
    "event_types_output hmac_profile make_alarm_topic missing_name_faults notify output_key "
    "published_types run_app stack_size_faults synthesize tables_row unmanaged_mapping_faults",
    "once.testing": "FakeAws FakeContext Fault answer_lost cancelled cloud_event inject "
    "never_sent refused",
}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_exactly_its_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == NAMES[package].split()
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert not hasattr(module, "Unknown")


def test_the_shop_uses_the_constructs_by_their_public_names() -> None:
    files = [*(ROOT / "stacks").glob("*.py"), ROOT / "app.py"]
    found = {
        node.module
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("once")
    }
    assert found == {"once.cdk"}
