"""`once region reconcile`: which events a Region has in part, and what is done about them."""

import json
from pathlib import Path
from typing import Any

import pytest

from once.commit.dedup_record import record_key
from once.events.identity import key_hash
from once.names import Record, StackOutput
from once.ops import region_reconciliation
from tests.ops.shop import Shop, note
from tests.ops.support import run, stderr_of, stdout_of
from tests.ops.test_main import has_documented_shape

COMMAND = ("region", "reconcile", "@events.jsonl")
NAMES = ("whole", "record", "item", "neither")


def dedup_key(name: str) -> str:
    return f"orders#event#/test#id-{name}"


@pytest.fixture
def torn(shop: Shop, tmp_path: Path) -> Shop:
    """Notes of which the record, the item, both or neither have arrived, and a file of them all."""
    shop.cloud.state.pop(f"{StackOutput.TABLE}Stock")
    shop.cloud.state[f"{StackOutput.TABLE}Counters"] = "counters"
    for name in NAMES:
        shop.process(note(name))
    for name in ("item", "neither"):
        shop.aws.dynamodb.delete_item(TableName="dedup", Key=record_key(dedup_key(name)))
    for name in ("record", "neither"):
        shop.aws.dynamodb.delete_item(TableName="counters", Key={"name": {"S": name}})
    lines = [json.dumps(note(name)) for name in NAMES]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    return shop


def reconciled(*options: str) -> dict[str, Any]:
    """Run the command; return finding and state by the event's id, but for whole ones."""
    *_, line = stdout_of(*COMMAND, "--json", *options).splitlines()
    return {one["event_id"]: (one["finding"], one["state"]) for one in json.loads(line)["findings"]}


def test_each_part_that_is_missing_is_told_and_nothing_is_changed(torn: Shop) -> None:
    assert reconciled() == {
        "id-record": ("record-alone", "left"),
        "id-item": ("item-alone", "left"),
        "id-neither": ("absent", "left"),
    }
    result = run(*COMMAND, "--json")
    assert has_documented_shape("region reconcile", result.stdout), result.output
    found = json.loads(result.stdout)
    assert found["counts"]["complete"] == 1
    [item] = [one for one in found["findings"] if one["finding"] == "item-alone"]
    assert item["items"] == [{"table": "counters", "key": {"name": {"S": "item"}}}]
    assert item["key_hash"] == key_hash(dedup_key("item"))
    assert "1 complete, 1 record-alone, 1 item-alone, 1 absent" in stdout_of(*COMMAND)
    assert torn.cloud.logged() == []


def test_settled_and_redriven_events_are_there_once_when_all_are_sent_again(torn: Shop) -> None:
    why = ("--yes", "--why", "us-east-1 was gone")
    done = reconciled("--settle", "--send", "--send-again", *why)
    assert {state for _, state in done.values()} == {"settled", "sent", "sent again"}
    torn.work_off()
    for name in NAMES:  # as the senders do
        torn.process(note(name))
    assert torn.counted() == dict.fromkeys(NAMES, 1)
    assert torn.dead_letters() == []
    assert reconciled() == {}
    _, outcome = torn.cloud.logged()
    assert outcome["counts"] == {"settled": 1, "sent": 1, "sent again": 1}
    [record] = torn.records.get([dedup_key("item")])
    assert "moto" in record[Record.SETTLEMENT]["S"]


def test_an_event_that_is_sent_again_without_its_record_is_applied_twice(torn: Shop) -> None:
    for name in NAMES:
        torn.process(note(name))
    assert torn.counted() == {"whole": 1, "item": 2, "neither": 1}


def test_a_choice_changes_its_finding_alone_and_is_asked_for(torn: Shop) -> None:
    assert "answer y, or give --yes" in stderr_of(*COMMAND, "--settle")
    assert {state for _, state in reconciled("--settle", "--dry-run").values()} == {"left"}
    assert reconciled("--settle", "--yes") == {
        "id-record": ("record-alone", "left"),
        "id-item": ("item-alone", "settled"),
        "id-neither": ("absent", "left"),
    }
    assert torn.waiting() == []


def test_a_command_that_ends_between_deletion_and_sending_is_repeated(
    torn: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(region_reconciliation, "queue_sender", gone)
        assert run(*COMMAND, "--send-again", "--yes").exit_code != 0
    assert reconciled("--send", "--yes")["id-record"] == ("absent", "sent")
    torn.work_off()
    assert torn.counted() == dict.fromkeys(NAMES, 1)


def test_a_record_that_was_written_meanwhile_is_kept(
    torn: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = region_reconciliation.compare

    def late(*arguments: Any) -> Any:
        found = compare(*arguments)
        for name in ("item", "neither"):
            torn.process(note(name))
        return found

    monkeypatch.setattr(region_reconciliation, "compare", late)
    done = reconciled("--settle", "--yes")
    assert done["id-item"] == ("item-alone", "changed meanwhile: run this command again")
    [record] = torn.records.get([dedup_key("item")])
    assert Record.SETTLEMENT not in record


def test_an_event_without_a_key_and_a_line_without_an_event(torn: Shop, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(json.dumps(note("x", "named", data={"name": " "})))
    assert reconciled() == {"id-x": ("unknown", "left")}
    (tmp_path / "events.jsonl").write_text("{")
    assert "line 1 is no event" in stderr_of(*COMMAND, code=2)
