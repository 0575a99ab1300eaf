"""The state of an execution, as a digest: all that its future and its oracles depend on.

A suspended task cannot be compared with another one. But its code is deterministic: where it stands
follows from the messages that it was invoked with, which are in its process's name, and from every
answer it was given, with the time of each. So a digest of the answers stands for it. Of a process
that has ended, nothing but what it wrote is left.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from proof.world.tasks import Task

if TYPE_CHECKING:
    from proof.explore.execution import Execution


def digest(execution: "Execution") -> bytes:
    """Return the digest of the state that an execution is in."""
    state = (
        execution.world.tasks.now,
        execution.stages_left,
        execution.scheduler.redrives,
        execution.scheduler.settles,
        execution.scheduler.outages,
        _running(execution),
        [*_tasks(execution)],
        _tables(execution),
        _queues(execution),
        _outside(execution),
        sorted((key, sorted(ids)) for key, ids in execution.ledger.commits.items()),
        sorted(execution.ledger.published),
        sorted(execution.ledger.premature),
    )
    return blake2b(repr(state).encode(), digest_size=16).digest()


def _running(execution: "Execution") -> str:
    process = execution.scheduler.running
    is_ready = any(task.process is process for task in execution.world.tasks.ready)
    return process.name if process is not None and is_ready else ""


def _tasks(execution: "Execution") -> list[Any]:
    world = execution.scheduler.world

    def seen(task: Task) -> tuple[Any, ...]:
        process = task.process
        wakes_at = max(task.wakes_at, world.tasks.now)
        waiting, has_call = len(task.waits_for), task in world.calls
        history = world.history(process.name)
        return (process.name, process.deadline, wakes_at, waiting, has_call, history)

    return sorted(seen(task) for task in world.tasks.alive)


def _tables(execution: "Execution") -> tuple[Any, ...]:
    tables, invocations = execution.world.tables, execution.invocations
    items = {name: sorted(rows.items()) for name, rows in tables.items.items()}
    return items, tables.tokens, invocations.unread(0), sorted(invocations.relaying)


def _queues(execution: "Execution") -> list[Any]:
    return [
        (queue.name, sorted(map(repr, queue.messages.values())), sorted(m.id for m in queue.ever))
        for place in execution.scheduler.places
        for queue in (*place.sources, place.dead_letters)
    ]


def _outside(execution: "Execution") -> tuple[Any, ...]:
    world = execution.scheduler.world
    late = [call for call in world.late if call[0] >= world.tasks.now]
    return (
        sorted(world.provider.api.charges(), key=repr),
        world.provider.keys,
        sorted(world.mail.sent.items()),
        sorted(world.workflows.started.items()),
        late,
    )
