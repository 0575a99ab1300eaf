"""The third-party part of a package: installed once for each lock, Python and machine."""

import json
from itertools import product
from pathlib import Path

import pytest
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.packaging import _wheels as wheels_module
from once.cdk.packaging._wheels import install_wheels
from tests.cdk.packages import HERE, LOCK, tree


def test_the_same_lock_gives_the_same_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = install_wheels([LOCK], HERE)
    monkeypatch.setattr(wheels_module, "SITES", tmp_path)
    second = install_wheels([LOCK], HERE)
    assert first != second
    assert first.name == second.name
    assert tree(first) == tree(second)


def test_every_service_in_use_has_the_endpoints_it_would_have_untrimmed() -> None:
    path = install_wheels([LOCK], HERE) / "botocore" / "data" / "endpoints.json"
    assert path.stat().st_size < 100_000
    untrimmed, trimmed = Loader().load_data("endpoints"), json.loads(path.read_bytes())
    regions = [region for part in untrimmed["partitions"] for region in part["regions"]]
    assert len(regions) > 30
    for prefix, region in product(("dynamodb", "email", "secretsmanager", "sns", "sqs"), regions):
        expected = EndpointResolver(untrimmed).construct_endpoint(prefix, region)
        assert EndpointResolver(trimmed).construct_endpoint(prefix, region) == expected


def test_another_lock_python_or_machine_gives_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels_module, "SITES", tmp_path / "site")
    monkeypatch.setattr(wheels_module, "_fill", lambda *_: None)
    own = tmp_path / "requirements.txt"
    own.touch()
    locks_and_configs = [
        ([LOCK], DeploymentConfig(python_runtime="3.11")),
        ([LOCK], DeploymentConfig(python_runtime="3.12")),
        ([LOCK], HERE),
        ([LOCK, own], HERE),
    ]
    assert len({install_wheels(locks, config) for locks, config in locks_and_configs}) == 4


def test_a_lock_that_cannot_be_installed_is_refused_with_a_remedy(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("six==1.17.0\n")
    with pytest.raises(SynthError, match="install pip if it is missing") as caught:
        install_wheels([lock], HERE)
    assert str(lock) in str(caught.value)
    assert "--require-hashes" in str(caught.value)
