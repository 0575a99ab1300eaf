"""What must hold in every state, and what in one that is at rest.

A state is at rest where nothing can happen any more. Faults are moves that need not happen, so the
runs on which no further one does are explored from every state, and end in states at rest: to look
at these is to switch the faults off everywhere and see how it ends.
"""

from collections import Counter
from collections.abc import Iterator

from proof.model.calls import Letter
from proof.model.performer import EFFECT_UNKNOWN, KEY_CONFLICT
from proof.model.scopes import Scope
from proof.model.services import STOCK
from proof.model.world import Message, World


def broken(world: World) -> str | None:
    """Return the promise that a state breaks, or None."""
    if len({row.key for row in world.applied}) < len(world.applied):
        return "two committed effects of one key"
    if len(set(world.charges)) < len(world.charges):
        return "two charges of one intent"
    if len(set(world.reached)) < len(world.reached):
        return "two effects downstream"
    if sum(row.item == "stock" and not row.refused for row in world.applied) > STOCK:
        return "the last piece was given twice"
    if any(message.acknowledged and not _durable(world, message) for message in world.queue):
        return "acknowledged without a committed effect or a dead letter"
    return None


def _durable(world: World, message: Message) -> bool:
    return message.id in world.lettered or _applied(world, message.event.key, message.event.content)


def _applied(world: World, key: str, content: str) -> bool:
    return any((row.key, row.content) == (key, content) for row in world.applied)


def unrest(scope: Scope, world: World) -> str | None:
    """Return what is wrong with a state that nothing can follow, or None."""
    return next(_faults_at_rest(scope, world), None)


def _faults_at_rest(scope: Scope, world: World) -> Iterator[str]:
    left = world.workers or world.air or world.stream or world.feed
    if left or not all(message.deleted for message in world.queue):
        yield "something is left that nobody works on"
    if Counter(world.reached) != Counter({row.key: 1 for row in world.applied}):
        yield "an effect without its one effect downstream"
    for event in scope.events:
        applied = _applied(world, event.key, event.content)
        letters = [letter for letter in world.letters if letter.event == event]
        if not applied and not letters:
            yield "lost: neither an effect nor a dead letter"
        if event.effect and applied and event.key not in world.charges:
            yield "written down as charged, and was not"
    for letter in world.letters:
        if not _right(scope, world, letter):
            yield f"a dead letter that should not be: {letter.reason or 'no reason'}"


def _right(scope: Scope, world: World, letter: Letter) -> bool:
    if letter.reason == KEY_CONFLICT:
        other = any(row.key == letter.event.key for row in world.applied)
        return other and not _applied(world, letter.event.key, letter.event.content)
    if letter.reason == EFFECT_UNKNOWN:
        return bool(letter.event.effect) and world.faults < scope.faults
    # Waiting for another delivery's effect spends receives; that other one has done it then.
    waited = letter.lineage > 0 and bool(letter.event.effect)
    return letter.excused or (waited and _applied(world, letter.event.key, letter.event.content))
