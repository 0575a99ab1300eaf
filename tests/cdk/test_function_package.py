"""A function's package: its content, that its handler loads from it alone, and the same bytes."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import aws_cdk as cdk
import boto3
import botocore
import pytest
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

from once.cdk import DedupTable, IdempotentConsumer
from once.cdk import _lambda_function as function_module
from once.cdk.checks.aws_clients_in_code import OWN_SERVICES
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.packaging import function_package as package_module
from once.cdk.packaging.function_package import SITES, install_wheels, locks_of, package
from stacks.folders import ROOT
from tests.cdk.packages import EVERY, HERE, Function, names, tree
from tests.e2e.app import LOYALTY
from tests.stacks.cloud import Cloud, environment

SMALL, LARGE = 16_000_000, 45_000_000
"""Bytes. Stripe's library has a file for each of its types, and weighs more than all the rest."""
AARCH64 = 183
"""The machine's number in an ELF header."""


def sources(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in tree(folder).items() if "__pycache__" not in name}


def test_package_is_wheels_library_and_its_own_folder(
    function: Function, config: DeploymentConfig
) -> None:
    folder = package(*function, config)
    wheels = install_wheels(locks_of(function.source, config), config)
    python = {".python"} if config.local else set()
    assert names(folder) == names(wheels) | {"once", "functions"} | python
    assert names(folder / "functions") - {"__pycache__"} == {"__init__.py", function.name}
    assert sources(folder / "functions" / function.name) == sources(function.source)
    assert {path.name for path in (ROOT / "once").glob("*.py")} <= names(folder / "once")
    assert "testing" not in names(folder / "once")


def test_wheels_are_those_of_its_locks(function: Function, config: DeploymentConfig) -> None:
    locks = locks_of(function.source, config)
    text = "".join(lock.read_text() for lock in locks)
    locked = re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE)
    found = {path.name.lower() for path in install_wheels(locks, config).glob("*.dist-info")}
    assert found == {f"{name.replace('-', '_')}-{version}.dist-info" for name, version in locked}
    assert ("stripe" in dict(locked)) is (function.name == "payments")


def test_package_is_trimmed(function: Function, config: DeploymentConfig) -> None:
    folder = package(*function, config)
    assert "bin" not in names(folder)
    assert not list(folder.glob("*.dist-info/RECORD"))
    assert not [*folder.rglob("*.pyi"), *folder.rglob("*.min.js"), *folder.rglob("*.min.css")]
    models = {path.name for path in (folder / "botocore" / "data").iterdir() if path.is_dir()}
    assert models == OWN_SERVICES.union(function.services or ())
    size = sum(len(content) for content in tree(folder).values())
    assert size < (LARGE if len(locks_of(function.source, config)) > 1 else SMALL)


def test_every_service_in_use_has_the_endpoints_it_would_have_untrimmed() -> None:
    sender = next(each for each in EVERY if each.services == ("sesv2",))
    path = package(*sender, HERE) / "botocore" / "data" / "endpoints.json"
    assert path.stat().st_size < 100_000
    untrimmed, trimmed = Loader().load_data("endpoints"), json.loads(path.read_bytes())
    regions = [region for part in untrimmed["partitions"] for region in part["regions"]]
    assert len(regions) > 30
    used = ("dynamodb", "email", "lambda", "secretsmanager", "sns", "sqs", "states")
    for prefix, region in product(used, regions):
        expected = EndpointResolver(untrimmed).construct_endpoint(prefix, region)
        assert EndpointResolver(trimmed).construct_endpoint(prefix, region) == expected


def test_without_a_declaration_nothing_of_the_sdk_is_left_out() -> None:
    folder = package(*EVERY[0]._replace(services=None), HERE)
    for sdk in (botocore, boto3):
        own = Path(str(sdk.__file__)).parent / "data"
        assert tree(folder / sdk.__name__ / "data") == tree(own)


MAKES_SSM = "import boto3\nboto3.client('ssm')\n"
MAKES_ANY = "import boto3\ndef make(name):\n    return boto3.client(name)\n"


@pytest.mark.usefixtures("staged")
@pytest.mark.parametrize(
    ("code", "services", "kept"),
    [
        ("", (), False),
        (MAKES_SSM, ("ssm",), False),
        (MAKES_ANY, (), True),
    ],
    ids=["none", "declared", "unreadable"],
)
def test_wheels_of_the_functions_own_lock_are_read_for_clients(
    code: str,
    services: tuple[str, ...],
    kept: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = with_wheel(code, tmp_path, monkeypatch)._replace(services=services)
    data = package(*function, HERE) / "botocore" / "data"
    assert ("ec2" in names(data)) is kept
    assert ("ssm" in names(data)) is (kept or "ssm" in services)


@pytest.mark.usefixtures("staged")
def test_a_wheel_that_calls_another_service_is_refused_with_its_place_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = with_wheel(MAKES_SSM, tmp_path, monkeypatch)
    with pytest.raises(SynthError, match=r"wheels/needs\.py:2 uses .* 'ssm'.* add 'ssm' to"):
        package(*function, HERE)


def with_wheel(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Function:
    """Return a function with a lock of its own, whose wheels are two services and one module."""

    def fill(site: Path, *_: object) -> None:
        for service in ("dynamodb", "ec2", "ssm"):
            model = site / "botocore" / "data" / service / "1" / "service-2.json.gz"
            model.parent.mkdir(parents=True)
            model.write_bytes(gzip.compress(b'{"metadata": {"endpointPrefix": "x"}}'))
        (site / "botocore" / "data" / "endpoints.json").write_text('{"partitions": []}')
        (site / "botocore" / "session.py").write_text(MAKES_ANY)
        (site / "needs.py").write_text(code)

    monkeypatch.setattr(package_module, "SITES", folder / "site")
    monkeypatch.setattr(package_module, "_install", fill)
    source = folder / "source"
    source.mkdir()
    (source / "requirements.txt").touch()
    return Function("probe", source)


def test_aws_gets_binaries_for_arm() -> None:
    libraries = list(package(*EVERY[0], DeploymentConfig()).rglob("*.so"))
    assert libraries
    for library in libraries:
        assert int.from_bytes(library.read_bytes()[18:20], "little") == AARCH64


@pytest.mark.usefixtures("staged", "_without_pip")
def test_every_user_may_read_the_package_after_a_strict_umask() -> None:
    before = os.umask(0o077)
    try:
        folder = package(*EVERY[0], HERE)
    finally:
        os.umask(before)
    assert (folder / "six.py").exists()
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def import_handler(path: Path, name: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Import a handler as Lambda does, with `path` and the standard library only."""
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import functions.{name}.handler"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code],
        env={"AWS_LAMBDA_FUNCTION_NAME": name, "AWS_DEFAULT_REGION": "eu-west-1", **env},
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=False,
    )


def test_handler_loads_from_its_package_alone(local_cloud: Cloud, function: Function) -> None:
    done = import_handler(
        package(*function, HERE), function.name, environment(local_cloud, function.name)
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_handler_loads_neither_without_its_package_nor_with_the_environment_of_another(
    local_cloud: Cloud,
) -> None:
    one, other, *_ = EVERY
    done = import_handler(ROOT, one.name, environment(local_cloud, one.name))
    assert "ModuleNotFoundError" in done.stderr
    done = import_handler(package(*one, HERE), one.name, environment(local_cloud, other.name))
    assert "RegistrationError" in done.stderr


def test_an_asset_is_the_package_without_bytecode_that_others_leave_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOYALTY.folder is not None
    monkeypatch.setattr(function_module, "package", package)
    tag = str(sys.implementation.cache_tag)
    left = [f"commit.{kind}.pyc" for kind in ("cpython-399", f"{tag}.opt-1", f"{tag}-pytest-9.0.0")]
    assets = []
    for number, names_left in enumerate(([], left)):
        # Another place: the CDK remembers the hash of a folder.
        monkeypatch.setattr(package_module, "STAGED", tmp_path / f"build-{number}")
        folder = package("loyalty", LOYALTY.folder, (), DeploymentConfig())
        whole = tree(folder)
        for name in names_left:
            (folder / "once" / "__pycache__" / name).touch()
        out = tmp_path / f"out-{number}"
        stack = cdk.Stack(cdk.App(outdir=str(out)), "loyalty")
        dedup = DedupTable(stack, "dedup")
        tables = {each.name: dedup for each in LOYALTY.tables}
        IdempotentConsumer(stack, LOYALTY, dedup_table=dedup, tables=tables)
        stack.node.root.synth()  # type: ignore[attr-defined]
        [asset] = out.glob("asset.*")
        assert tree(asset) == whole
        assets.append(asset.name)
    assert assets[0] == assets[1]


@pytest.mark.usefixtures("staged", "_without_pip")
def test_a_changed_line_of_code_changes_its_own_package_only(tmp_path: Path) -> None:
    function = EVERY[0]
    folder = tmp_path / "source"
    shutil.copytree(function.source, folder)
    copy = function._replace(source=folder)
    before = package(*copy, HERE)
    assert before == package(*function, HERE)
    with (folder / "handler.py").open("a") as handler:
        handler.write("# another line\n")
    assert package(*copy, HERE) != before
    assert package(*function, HERE) == before


@pytest.mark.usefixtures("staged", "_without_pip")
def test_another_recipe_gives_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = package(*EVERY[0], HERE)
    changed = tmp_path / "recipe.py"
    changed.write_text("# another recipe\n")
    monkeypatch.setattr(package_module, "__file__", str(changed))
    assert package(*EVERY[0], HERE) != before


BUILD = """
import os, random, sys
from pathlib import Path
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.packaging.function_package import package

def shuffled(self, pattern, walk=Path.rglob):
    found = list(walk(self, pattern))
    random.shuffle(found)
    return iter(found)

Path.rglob = shuffled
os.umask(0o077)
print(package(sys.argv[1], Path(sys.argv[2]), (), DeploymentConfig(local=True)))
"""


def modes(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.stat().st_mode for path in folder.rglob("*")}


def test_another_place_time_order_umask_and_hash_seed_give_the_same_package(tmp_path: Path) -> None:
    name, source, _ = EVERY[0]
    here = package(name, source, (), HERE)
    copy = tmp_path / "elsewhere" / "source"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*"):
        os.utime(path, (0, 0))
    # Installed wheels are compared in test_wheels.py; another installation takes long.
    (tmp_path / SITES.parts[0]).symlink_to(SITES.parent.absolute())
    done = subprocess.run(
        [sys.executable, "-c", BUILD, name, str(copy)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    there = Path(done.stdout.strip())
    assert there.is_relative_to(tmp_path)
    assert there.name == here.name
    assert tree(there) == tree(here)
    assert modes(there) == modes(here)
