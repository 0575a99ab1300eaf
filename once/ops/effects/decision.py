"""Decision: what an operator found out about an effect, from the options of `effects settle`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec
from typer import BadParameter

from once.effects.executor import refused_text, returned_text
from once.effects.intent import Intent, not_done, settled
from once.errors import UNREADABLE

_CHOICE = "--done / --refused / --not-done"


@dataclass(frozen=True, slots=True)
class Decision:
    """An operator's decision.

    Attributes:
        name: `done`, `refused` or `not-done`.
        summary: the decision as text.
        change: returns the intent after the decision, from the intent before and the settlement.
    """

    name: str
    summary: str
    change: Callable[[Intent, str], Intent]

    def after(self, found: Intent, *, who: str, now: datetime, why: str) -> Intent:
        """Return the intent after the decision."""
        entry = {"as": self.name, "by": who, "at": now.isoformat(timespec="seconds"), "why": why}
        return self.change(found, json.dumps(entry, ensure_ascii=False))


def read_decision(
    done: str | None, refused: str | None, text: str | None, *, is_not_done: bool, new_key: bool
) -> Decision:
    """Return the decision of a set of options.

    Raises:
        typer.BadParameter: the options contradict each other, or the outcome is not JSON.
    """
    if sum((done is not None, refused is not None, is_not_done)) != 1:
        raise BadParameter("give exactly one of these", param_hint=_CHOICE)
    if text is not None and refused is None:
        raise BadParameter("is an argument of the refusal", param_hint="--text")
    if new_key and not is_not_done:
        raise BadParameter("is for an effect that is called again", param_hint="--new-key")
    if done is not None:
        return _done(done)
    if refused is not None:
        arguments = [] if text is None else [text]
        return _settled("refused", f"refused, {refused}", refused_text(refused, arguments))
    return Decision(
        "not-done",
        "not done: it will be called again" + (", under a new provider key" if new_key else ""),
        lambda found, entry: not_done(found, entry, new_key=new_key),
    )


def _done(outcome: str) -> Decision:
    try:
        msgspec.json.decode(outcome)
    except UNREADABLE as error:
        raise BadParameter(
            f"it is no JSON ({error}); a text needs quotation marks of its own: '\"ch_1\"'",
            param_hint="--done",
        ) from None
    content = outcome.strip()
    return _settled("done", f"done, with the outcome {content}", returned_text(content.encode()))


def _settled(name: str, summary: str, outcome: str) -> Decision:
    return Decision(name, summary, lambda found, entry: settled(found, outcome, entry))
