"""Tasks take turns, wait for each other, and die together."""

from typing import Any

from proof.world.tasks import START, Killed, Pool, Process, Tasks


def run_all(tasks: Tasks) -> None:
    while True:
        if ready := tasks.ready:
            tasks.run(ready[0])
        elif tasks.next_time < float("inf"):
            tasks.now = tasks.next_time
            tasks.fire()
        else:
            return


def test_a_task_goes_on_when_its_time_has_come() -> None:
    tasks, seen = Tasks(), list[Any]()

    def work(name: str, seconds: float) -> None:
        tasks.pause(seconds)
        seen.append((name, tasks.now - START))

    tasks.start(Process("a"), lambda: work("late", 2))
    tasks.start(Process("b"), lambda: work("early", 1))
    run_all(tasks)
    assert seen == [("early", 1), ("late", 2)]


def test_the_tasks_of_a_process_die_together_and_do_nothing_more() -> None:
    tasks, process, seen = Tasks(), Process("a"), []

    def work() -> None:
        try:
            tasks.pause(1)
            seen.append("lived")
        finally:
            try:
                tasks.pause()
            except Killed:
                seen.append("died")

    for _ in range(2):
        tasks.start(process, work)
    tasks.start(Process("b"), lambda: tasks.kill(process))
    run_all(tasks)
    assert seen == ["died", "died"]


def test_a_process_is_killed_at_its_deadline() -> None:
    tasks, seen = Tasks(), list[Any]()

    def work() -> None:
        tasks.pause(10)
        seen.append("lived")

    tasks.start(Process("a", deadline=tasks.now + 5), work)
    run_all(tasks)
    assert seen == []


def test_a_pool_gives_its_results_in_order_when_all_have_ended() -> None:
    tasks, seen = Tasks(), list[Any]()

    def one(number: int) -> int:
        tasks.pause(10 - number)
        seen.append(number)
        return number * number

    def work() -> None:
        with Pool(tasks) as pool:
            seen.append(pool.map(one, [1, 2, 3]))

    tasks.start(Process("a"), work)
    run_all(tasks)
    assert seen == [3, 2, 1, [1, 4, 9]]
