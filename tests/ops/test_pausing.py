"""`pause` and `resume`: the mappings, the note, and where commands show the pause."""

import json

import pytest

from once.ops import pausing
from once.ops.errors import ExitCode
from tests.ops.cloud import Cloud
from tests.ops.mappings import ISOLATION, OTHER, QUEUE, Lambda
from tests.ops.support import refusal, refuse, rows, run, stderr_of, stdout_of, words
from tests.ops.test_main import has_documented_shape
from tests.ops.test_status import answer_ages


def pause() -> str:
    return stdout_of("pause", "orders", "--yes", "--why", "provider is down")


def test_a_paused_consumer_receives_nothing_until_it_is_resumed(
    cloud: Cloud, mappings: Lambda
) -> None:
    assert "orders is paused: `once resume orders` ends it" in words(pause())
    states = {QUEUE: "Disabled", ISOLATION: "Disabled", OTHER: "Enabled"}
    assert mappings.states == states
    assert "orders is paused since" in stderr_of("pause", "orders", "--yes", "--why", "again")
    assert "receives messages again" in words(stdout_of("resume", "orders", "--yes"))
    assert set(mappings.states.values()) == {"Enabled"}
    stdout_of("status")
    assert "orders is not paused" in stderr_of("resume", "orders", "--yes")
    entries = [(e["command"], e["phase"], e["why"], e["arguments"]) for e in cloud.logged()]
    told = {"consumer": "orders"}
    assert entries == [
        ("pause", "intent", "provider is down", told),
        ("pause", "outcome", "provider is down", told),
        ("resume", "intent", None, told),
        ("resume", "outcome", None, told),
    ]


@pytest.mark.usefixtures("mappings")
def test_a_pause_needs_a_reason_and_a_dry_run_says_what_it_costs(cloud: Cloud) -> None:
    assert "say why" in stderr_of("pause", "orders", "--yes", code=ExitCode.USAGE)
    for _ in range(2):
        cloud.sqs.send_message(QueueUrl=cloud.queue("orders"), MessageBody="x")
    told = words(stdout_of("pause", "orders", "--dry-run"))
    assert "orders: 2 messages in its queues" in told
    assert "SQS deletes a message 4 d after it was sent: the first at " in told
    assert cloud.logged() == []
    stdout_of("status")


@pytest.mark.usefixtures("mappings")
def test_status_says_who_paused_it_why_and_from_when_on_messages_are_lost(cloud: Cloud) -> None:
    answer_ages(orders=[7200.0])
    pause()
    found = run("status", "--json")
    assert found.exit_code == ExitCode.STUCK
    row = json.loads(found.stdout)["queues"][1]
    assert (row["pause"]["why"], row["retention_seconds"]) == ("provider is down", 345600)
    told = words(found.stderr)
    assert "event source mapping" not in told
    assert "orders: paused since" in told
    assert f"{row['pause']['oldest'][:10]}" < told.partition("waiting messages from ")[2][:10]
    assert ["orders (paused)"] in [each[:1] for each in rows(run("status").stdout)]


def test_a_mapping_that_a_deployment_enabled_is_told_and_paused_again(mappings: Lambda) -> None:
    pause()
    mappings.states[ISOLATION] = "Enabled"
    assert "but an event source mapping is enabled again" in stderr_of("status", code=4)
    pause()
    assert mappings.states[ISOLATION] == "Disabled"


def test_a_pause_that_lambda_refuses_is_seen_and_ended_by_the_same_command(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, mappings: Lambda
) -> None:
    asked = ("pause", "orders", "--yes", "--why", "provider is down")
    with monkeypatch.context() as patch:
        patch.setattr(pausing, "WAIT_SECONDS", -1)
        mappings.refusals.append(refusal("ResourceInUseException"))
        assert "ResourceInUseException" in stderr_of(*asked)
        assert "are Disabling after" in stderr_of(*asked)
    mappings.states[QUEUE] = "Enabled"
    assert "is enabled again" in stderr_of("status", code=4)
    assert cloud.logged()[-1]["outcome"] == "failed"
    pause()


@pytest.mark.usefixtures("mappings")
def test_json_has_the_documented_shape() -> None:
    for command in ("pause", "resume"):
        told = run(command, "orders", "--yes", "--why", "provider is down", "--json").stdout
        assert has_documented_shape(command, told)


@pytest.mark.usefixtures("cloud")
def test_without_the_right_to_list_mappings_the_error_names_the_policy() -> None:
    refuse("lambda.ListEventSourceMappings")
    assert "OperatorReads" in stderr_of("resume", "orders", "--yes")


@pytest.mark.usefixtures("mappings")
def test_a_trace_says_that_a_paused_consumer_has_the_event_waiting(cloud: Cloud) -> None:
    pause()
    told = stderr_of("trace", "placed-1", "--source", "/shop")
    assert "orders is paused since" in told
    stdout_of("resume", "orders", "--yes")
    assert "paused" not in stderr_of("trace", "placed-1", "--source", "/shop")
