"""The pytest plugin: the fixture `once_aws`, which every project has that installs the library.

pytest imports this module in each of its runs, so moto and boto3 load with the first use.
"""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from once.testing.aws import FakeAws


@pytest.fixture
def once_aws(request: pytest.FixtureRequest) -> Iterator[Callable[..., "FakeAws"]]:
    """Start the AWS of a consumer in memory, until the end of the test.

    `once_aws("tickets")` takes the consumer's line from the registry that `[tool.once]` of
    pyproject.toml names, as `FakeAws.of` does; `once_aws(consumer, {"seats": "show"})` takes the
    arguments of `FakeAws`.
    """
    from once.testing import FakeAws

    with ExitStack() as stack:

        def start(consumer: Any, *tables: Any, **options: Any) -> FakeAws:
            if isinstance(consumer, str):
                fake = FakeAws.of(_registry(request.config.rootpath), consumer, **options)
            else:
                fake = FakeAws(consumer, *tables, **options)
            return stack.enter_context(fake)

        yield start


def _registry(root: Path) -> Any:
    file = root / "pyproject.toml"
    settings = tomllib.loads(file.read_text()) if file.exists() else {}
    place = settings.get("tool", {}).get("once", {}).get("registry", "")
    module, _, name = place.partition(":")
    if not name:
        raise LookupError(
            f'{file} names no registry: write registry = "module:NAME" into its [tool.once], or '
            "give once_aws the consumer and its tables"
        )
    return getattr(import_module(module), name)
