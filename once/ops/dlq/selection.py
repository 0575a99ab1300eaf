"""Selection of dead letters: by message id, or by a filter."""

from collections.abc import Iterator, Sequence

from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.queue_walk import batches_by_queue
from once.ops.dlq.letter_filter import LetterFilter
from once.ops.dlq.search import LetterSearch
from once.ops.errors import OpsError

_WHOLE_ID = 36
_SHOWN = 5


def selected_letters(
    search: LetterSearch, names: Sequence[str], letter_filter: LetterFilter
) -> Iterator[Sequence[Letter]]:
    """Yield the named letters, or those that match the filter, in batches of one queue.

    Raises:
        OpsError: see `letters_by_id`.
    """
    if names:
        yield from batches_by_queue(letters_by_id(search, names))
        return
    for page in search.walk.pages():
        yield [letter for letter in page if letter_filter.matches(letter)]


def letters_by_id(search: LetterSearch, ids: Sequence[str]) -> list[Letter]:
    """Return the letters with these message ids, or beginnings of ids.

    Those of a FIFO queue are in the order of their places in its message groups.

    Raises:
        OpsError: an id matches no letter, or more than one.
        LettersHiddenError: an id matches no letter, and other commands hide some.
    """
    found: dict[str, list[Letter]] = {name: [] for name in dict.fromkeys(ids)}
    for page in search.walk.pages():
        for letter in page:
            for name in found:
                if name and letter.message_id.startswith(name):
                    found[name].append(letter)
        if all(found.values()) and all(len(name) == _WHOLE_ID for name in found):
            break
    if not all(found.values()):
        search.count_hidden()
    chosen = [_one(search, name, letters) for name, letters in found.items()]
    different = {letter.message_id: letter for letter in chosen}.values()
    return sorted(different, key=lambda letter: letter.place)  # on a standard queue, all have 0


def _one(search: LetterSearch, name: str, letters: Sequence[Letter]) -> Letter:
    if len(letters) == 1:
        return letters[0]
    if not letters:
        unseen = f"there is no dead letter {name!r} among those that could be seen"
        if search.hidden:
            raise search.hidden.error(f"{unseen}, and ")
        raise OpsError(f"{unseen}: `once dlq list` shows them")
    some = ", ".join(letter.message_id for letter in letters[:_SHOWN])
    raise OpsError(f"{len(letters)} dead letters begin with {name!r} ({some}): give more of the id")
