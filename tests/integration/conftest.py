"""Tables and queues of their own for each test, in the embedded AWS."""

import pytest

from emulator.embedded_aws import EmbeddedAws
from tests.integration.probe import Bench


@pytest.fixture
def bench(aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return Bench(aws)
