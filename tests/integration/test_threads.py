"""Sixteen threads against real, isolated transactions."""

from tests.integration.probe import Bench, event

THREADS = 16


def test_every_event_is_delivered_to_every_thread_and_counted_once(bench: Bench) -> None:
    events = [[event("added", f"counter-{n % 3}")] for n in range(20)]
    bench.deliver_in_parallel([events[n:] + events[:n] for n in range(THREADS)])
    assert sum(bench.amount(f"counter-{n}") for n in range(3)) == 20
    assert bench.outcomes() == ["accepted"] * 20


def test_two_contents_under_one_key_commit_one_and_quarantine_the_other(bench: Bench) -> None:
    first, second = (event("added", "visits", by=by, event_id="e-1") for by in (3, 5))
    bench.deliver_in_parallel([[[first]], [[second]]] * (THREADS // 2))
    assert bench.amount("visits") in (3, 5)
    assert bench.outcomes() == ["accepted"]
    assert bench.reasons() == ["key-conflict"] * (THREADS // 2)


def test_the_last_five_pieces_go_to_five_of_sixteen(bench: Bench) -> None:
    bench.put("tickets", 5)
    bench.deliver_in_parallel([[[event("taken", "tickets")]] for _ in range(THREADS)])
    assert bench.amount("tickets") == 0
    assert bench.outcomes() == ["accepted"] * 5 + ["refused"] * 11


def test_no_update_is_lost_where_sixteen_read_before_they_write(bench: Bench) -> None:
    events = [[[event("read.and.written", "balance")] for _ in range(3)] for _ in range(THREADS)]
    bench.deliver_in_parallel(events)
    assert bench.amount("balance") == 3 * THREADS
    assert bench.outcomes() == ["accepted"] * 3 * THREADS
