"""Purge in the console: an export in the folder that was shown, then the deletion."""

from collections.abc import Callable
from pathlib import Path

from once.ops.console.jobs import Job, JobPhase
from tests.ops.console.letters.conftest import Plan
from tests.ops.letters import Shop
from tests.ops.support import REFUSED_ENTRY, add_to_answer, fail_entries, run

Confirm = Callable[[Job], str]


def exports() -> list[Path]:
    return [*Path("once-exports").glob("*.jsonl")]


def test_export_can_be_imported_again(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a", "b")
    job = plan("dead-letters/purge", consumer="orders")
    assert str(Path("once-exports").resolve()) in job.plan[0]
    assert (exports(), job.changes) == ([], 2)
    shop.fail("c")  # arrives after the dry run, and stays
    text = confirm(job)
    [file] = exports()
    assert f"2 written to {file.resolve()}" in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(shop.letters()) == 1
    intent, outcome = shop.cloud.logged()
    assert (intent["command"], outcome["counts"]) == ("dlq purge", {"deleted": 2, "failed": 0})
    assert run("dlq", "import", file).exit_code == 0
    assert len(shop.letters()) == 3


def test_nothing_is_deleted_without_a_file(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a")
    job = plan("dead-letters/purge")
    Path("once-exports").write_text("a file in place of the folder")
    assert "nothing was deleted" in confirm(job)
    assert job.phase is JobPhase.FAILED
    assert len(shop.letters()) == 1


def test_letter_that_is_not_deleted_is_told(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail("a")
    fail_entries("sqs.DeleteMessageBatch", REFUSED_ENTRY)
    text = confirm(plan("dead-letters/purge"))
    assert "1 dead letters were not deleted" in text
    assert "too odd" in text


def test_stop_ends_a_purge_between_batches(shop: Shop, plan: Plan, confirm: Confirm) -> None:
    shop.fail(*(f"a{number}" for number in range(12)))
    job = plan("dead-letters/purge")
    add_to_answer("sqs.DeleteMessageBatch", lambda _: job.progress.stop.set())
    assert "stopped: 10 were deleted; the files have all that were planned" in confirm(job)
    assert len(shop.letters()) == 2
    [file] = exports()
    assert len(file.read_text().splitlines()) == 12
    assert shop.cloud.logged()[-1]["outcome"] == "stopped"
