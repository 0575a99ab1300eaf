"""Dedup key of a dead letter: the recorded one, and the one that the consumer's key rule gives."""

from dataclasses import dataclass

from once.errors import NoKey, OnceError, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.events.fingerprint import fingerprint
from once.ops.dead_letters.letter import Letter


@dataclass(frozen=True, slots=True)
class LetterKey:
    """The dedup key under which the consumer will look up a letter's event.

    Attributes:
        pk: the key; None if there is none, or it is not known.
        rejection: the error with which the consumer would reject the event for its key.
        doubt: the reason why the key is not known, or is not certain.
    """

    pk: str | None = None
    rejection: OnceError | None = None
    doubt: str | None = None


def key_of_letter(letter: Letter, event: CloudEvent) -> LetterKey:
    """Return the dedup key of a letter with this event."""
    try:
        deployed = letter.queue.rules.key(event)
        return _without_rule(letter, event) if deployed is None else _compared(letter, deployed)
    except (NoKey, TooLarge) as error:
        return LetterKey(rejection=error)


def _compared(letter: Letter, deployed: str) -> LetterKey:
    if letter.edited or letter.key in (None, deployed):
        return LetterKey(deployed)
    return LetterKey(
        letter.key,
        doubt=f"the letter names the key {letter.key}, and the deployed key rule gives {deployed}: "
        "the rule has changed since, or the attribute is forged. Look at both with `once trace`",
    )


def _without_rule(letter: Letter, event: CloudEvent) -> LetterKey:
    """Return the key if the deployed rule is not known."""
    recorded = letter.key
    if recorded and not (letter.edited or letter.moved):
        return LetterKey(recorded)  # its consumer has computed it from this body
    derived = _by_rule_of(recorded, event, letter.queue.identity) if recorded else None
    # A producer can set the attribute of a message that SQS moves.
    if derived and (letter.edited or derived == recorded):
        return LetterKey(derived)
    return LetterKey(doubt=_unknown(letter, event))


def _by_rule_of(recorded: str, event: CloudEvent, consumer: str) -> str | None:
    """Return the key by the rule of a recorded key; None if that takes volatile fields.

    Raises:
        NoKey, TooLarge: the rule gives no key.
    """
    rule = Key.of_record(recorded)
    if rule is None:
        return None
    key = rule.of(event, fingerprint=fingerprint(event), consumer=consumer)
    return key if rule != Key.content() or key == recorded else None


def _unknown(letter: Letter, event: CloudEvent) -> str:
    consumer = letter.queue.owner
    if letter.queue.source_url is None:
        return "none: no consumer has received it"
    if not letter.queue.rules.takes(event.type):
        return f"its key is not known: {consumer} takes no {event.type!r}"
    return (
        f"its key is not known: SQS moved it here without one, or it was edited, and the key rule "
        f"of {consumer} for {event.type!r} could not be read at synthesis. Write the rule out in "
        "@consumer.handles, such as key=Key.field('order_id'), and deploy"
    )
