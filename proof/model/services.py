"""What AWS and the provider do with a call that they hear, as they are documented."""

from collections.abc import Callable
from typing import Any

from proof.model.calls import (
    CONDITION,
    DONE,
    NONE,
    RUNNING,
    Answer,
    Call,
    Change,
    Charge,
    Checkpoint,
    Claim,
    Commit,
    DeleteLetter,
    Letter,
    LookUp,
    Publish,
    Quarantine,
    Read,
    Reasons,
    Reply,
    SendBack,
    Write,
)
from proof.model.world import Applied, Message, Saved, Streamed, World, ordered

Served = tuple[World, Reply]
ANYBODY = "anybody"
"""In the place of an owner: no fence at all, as a broken protocol has it."""
STOCK = 1
"""How many events may have a row's last piece; a further one is refused."""


def serve(world: World, caller: str, call: Call) -> Served:
    """Return the world after a call, and what its caller is told.

    Args:
        world: as it is now.
        caller: the name of the function that calls.
        call: the call.
    """
    return _SERVICES[type(call)](world, caller, call)


def _commit(world: World, _: str, call: Commit) -> Served:
    reasons = tuple(_reasons(world, claim) for claim in call.claims)
    if any(reason != Reasons(NONE, NONE) for reason in reasons):
        return world, reasons
    for claim in call.claims:
        world = _apply(world, claim)
    return world, DONE


def _reasons(world: World, claim: Claim) -> Reasons:
    return Reasons(_of_record(world, claim), _of_row(world, claim))


def _of_record(world: World, claim: Claim) -> Any:
    found = world.found(claim.key)
    if claim.owned == ANYBODY:
        return NONE
    if not claim.owned:
        return found or NONE
    mine = found and found.record.intent and found.record.intent.owner == claim.owned
    return NONE if mine else found  # a pending record is always there: it has no expiry


def _of_row(world: World, claim: Claim) -> str:
    taken = sum(row.item == claim.item and not row.refused for row in world.applied)
    is_stock = claim.item.startswith("stock")
    return CONDITION if is_stock and taken >= STOCK else NONE


def _apply(world: World, claim: Claim) -> World:
    world = world.put(claim.key, claim.record)
    if claim.publishes:
        world = world._replace(stream=(*world.stream, Streamed(claim.key, removed=False)))
    return world if claim.bare or claim.record.intent else _write_row(world, claim)


def _write_row(world: World, claim: Claim | Write) -> World:
    event, refused = claim.event, isinstance(claim, Claim) and claim.refused
    row = Applied(event.key, event.content, event.item, refused)
    return world._replace(applied=ordered([*world.applied, row]))


def _write(world: World, _: str, call: Write) -> Served:
    return _write_row(world, call), DONE


def _read(world: World, _: str, call: Read) -> Served:
    return world, tuple(world.found(key) for key in call.keys)


def _change(world: World, _: str, call: Change) -> Served:
    record = world.record(call.key)
    intent = record and record.intent
    if not record or not intent or intent[0::3] != call.before[0::3]:
        return world, CONDITION
    return world.put(call.key, record._replace(intent=call.after)), DONE


def _charge(world: World, _: str, call: Charge) -> Served:
    if call in world.air:
        return world, RUNNING
    for saved in world.saved:
        if saved.key == call.provider_key and saved.day == world.day:
            return world, saved.answer
    return save(charged(world, call), call, DONE), DONE


def charged(world: World, call: Charge) -> World:
    """Return the world after a charge, or a mail, of which there is one more now."""
    return world._replace(charges=ordered([*world.charges, call.event.key]))


def save(world: World, call: Charge, answer: str) -> World:
    """Return the world in which a provider remembers its answer; who sends mail has no keys."""
    if call.event.effect == "mail":
        return world
    others = (saved for saved in world.saved if saved.key != call.provider_key)
    return world._replace(saved=ordered([*others, Saved(call.provider_key, answer, world.day)]))


def _look_up(world: World, _: str, call: LookUp) -> Served:
    return world, call.event.key in world.charges


def _quarantine(world: World, _: str, call: Quarantine) -> Served:
    return lettered(world, _message(world, call.message), call.reason), DONE


def _message(world: World, name: str) -> Message:
    return next(message for message in world.queue if message.id == name)


def lettered(world: World, message: Message, reason: str) -> World:
    """Return the world with a message's dead letter: one more, where it was sent before."""
    copies = sum(letter.id.startswith(f"{message.id}c") for letter in world.letters)
    name, excused = f"{message.id}c{copies + 1}", world.faults < message.faults
    letter = Letter(name, message.event, reason, message.lineage, excused)
    return world._replace(
        letters=ordered([*world.letters, letter]),
        lettered=ordered({*world.lettered, message.id}),
    )


def _answer(world: World, caller: str, call: Answer) -> Served:
    again = {name: after if world.runs(after) else "" for name, after in call.failures}
    batch = next(worker.argument for worker in world.workers if worker.name == caller)
    for delivery in batch.deliveries:
        message = _message(world, delivery.message)
        if delivery.message in again:
            if message.holder == caller:
                world = world.with_message(message._replace(holder=again[delivery.message]))
            continue
        # A receipt that is not the newest deletes nothing, and SQS calls that a success.
        mine = message.receives == delivery.receives
        acknowledged = message._replace(acknowledged=True, deleted=message.deleted or mine)
        world = world.with_message(acknowledged)
    return world, DONE


def _publish(world: World, _: str, call: Publish) -> Served:
    return world._replace(feed=ordered([*world.feed, *call.events])), call.events


def _checkpoint(world: World, _: str, call: Checkpoint) -> Served:
    return world._replace(stream=world.stream[call.passed :]), DONE


def _send_back(world: World, _: str, call: SendBack) -> Served:
    letter = call.letter
    number = sum(message.id.startswith(f"{letter.id}r") for message in world.queue) + 1
    name, lineage = f"{letter.id}r{number}", letter.lineage + 1
    return world.with_message(Message(name, letter.event, world.faults, lineage=lineage)), DONE


def _delete_letter(world: World, _: str, call: DeleteLetter) -> Served:
    return world._replace(letters=tuple(x for x in world.letters if x != call.letter)), DONE


_SERVICES: dict[type, Callable[[World, str, Any], Served]] = {
    Commit: _commit,
    Write: _write,
    Read: _read,
    Change: _change,
    Charge: _charge,
    LookUp: _look_up,
    Quarantine: _quarantine,
    Answer: _answer,
    Publish: _publish,
    Checkpoint: _checkpoint,
    SendBack: _send_back,
    DeleteLetter: _delete_letter,
}
