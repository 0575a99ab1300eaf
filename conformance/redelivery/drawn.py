"""Messages that Hypothesis draws, and that show what the sample does not.

A failing one is made as small as it still fails, and kept as a sample in a folder of the project.
"""

import hashlib
import importlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from redelivery.subject import SubjectError

FOLDER = "redelivery-messages"
_LONGEST = 3


def kept(folder: Path, handler: str) -> Iterator[Path]:
    """Yield the messages that earlier runs have kept for a handler."""
    return iter(sorted((folder / FOLDER).glob(f"{handler.replace('/', '.')}-*.json")))


def name_of(handler: str, body: Any) -> str:
    """Return the name of the file that keeps a body."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{handler.replace('/', '.')}-{digest[:8]}.json"


def keep(folder: Path, handler: str, body: Any) -> None:
    """Keep a body as a sample: the next run tries it first."""
    (folder / FOLDER).mkdir(exist_ok=True)
    text = json.dumps(body, indent=2)
    (folder / FOLDER / name_of(handler, body)).write_text(f"{text}\n", encoding="utf-8")


def smallest(
    sample: Any, model: str, fails: Callable[[Any], bool], *, number: int, seed: int
) -> Any:
    """Return the smallest body that fails, of as many as are drawn; None without one.

    Args:
        sample: a body. The drawn ones have its fields, with other values of their types or none.
        model: a pydantic model, as `module:Class`, whose bodies are drawn instead; empty for none.
        fails: whether a body fails.
        number: how many are drawn; to make one smaller takes more.
        seed: the same seed draws the same.

    Raises:
        SubjectError: Hypothesis is not installed, or there is no such model.
    """
    try:
        import hypothesis
        from hypothesis.errors import NoSuchExample
    except ImportError as error:
        raise SubjectError("to draw messages, pip install 'pytest-redelivery[draw]'") from error
    settings = hypothesis.settings(
        max_examples=number,
        database=None,  # what fails is kept as a sample
        deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],  # to explain takes a trace
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    strategy = _of_model(model) if model else _like(sample)
    try:
        return hypothesis.find(strategy, fails, settings=settings, random=random.Random(seed))
    except NoSuchExample:
        return None


def _of_model(path: str) -> Any:
    from hypothesis import assume, strategies

    module, _, name = path.partition(":")
    try:
        model = getattr(importlib.import_module(module), name)
        bodies = strategies.from_type(model)
    except Exception as error:
        raise SubjectError(f"model {path}: {error}. Write it as module:Class") from error

    @strategies.composite
    def valid(draw: Callable[[Any], Any]) -> Any:
        try:
            return json.loads(draw(bodies).model_dump_json())
        except ValueError:  # of the model's own checks
            assume(False)

    return valid()


def _like(value: Any) -> Any:
    """Return the strategy for a value of the sample: itself, its variants, or none."""
    from hypothesis import strategies as st

    if isinstance(value, dict):
        fields = st.fixed_dictionaries({name: _like(entry) for name, entry in value.items()})
        return fields.map(type(value))  # text that holds an object stays text
    if isinstance(value, list):
        entries = st.one_of(*map(_like, value)) if value else st.nothing()
        return st.lists(entries, max_size=len(value) + _LONGEST)
    variants: dict[type, Any] = {
        bool: st.booleans(),
        int: st.integers(-(2**53), 2**53),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(),
    }
    return st.one_of(st.just(value), variants.get(type(value), st.none()), st.none())
