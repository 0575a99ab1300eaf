"""A function's package: its wheels, its content, that it loads alone, and the same bytes."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from threading import Barrier

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
from once.cdk.packaging import function_package as package_module
from once.cdk.packaging.function_package import (
    SITES,
    build_once,
    digest,
    install_wheels,
    locks_of,
    package,
)
from once.cdk.retained_data import RetainedTable
from once.cdk.synth_error import SynthError
from stacks.folders import ROOT
from tests.cdk.packages import EVERY, HERE, LOCK, Function, names, tree
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
        tables = {each.name: RetainedTable(stack, each.name, each) for each in LOYALTY.tables}
        dedup = DedupTable(stack, "dedup")
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
    # Installed wheels are compared below; another installation takes long.
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


# Wheels, and the build folders in which they are installed once.


def test_the_same_lock_gives_the_same_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "requirements.txt"  # the smallest wheel: pip does the same with each
    [entry] = re.findall(r"^rfc8785==.*?(?=^[a-z])", LOCK.read_text() + "z", re.M | re.S)
    small.write_text(entry)
    together = tree(install_wheels([LOCK], HERE))
    monkeypatch.setattr(package_module, "SITES", tmp_path / "site")
    alone = tree(install_wheels([small], HERE))
    assert any(name.startswith("rfc8785/") for name in alone)
    assert alone.items() <= together.items()


@pytest.mark.usefixtures("_without_pip")
def test_another_lock_python_or_machine_gives_another_folder(tmp_path: Path) -> None:
    own = tmp_path / "requirements.txt"
    own.touch()
    folders = [
        install_wheels([LOCK], DeploymentConfig(python_runtime="3.11")),
        install_wheels([LOCK], DeploymentConfig(python_runtime="3.12")),
        install_wheels([LOCK], HERE),
        install_wheels([LOCK, own], HERE),
    ]
    assert len(set(folders)) == 4


def test_a_package_that_no_lock_lists_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = with_wheel("", tmp_path, monkeypatch)
    handler = function.source / "handler.py"
    handler.write_text(
        "import json\nimport needs\nfrom typing import TYPE_CHECKING\n\nimport botocore.config\n"
        "if TYPE_CHECKING:\n    import stubs\ntry:\n    import faster\nexcept ImportError:\n"
        "    faster = None\n"
    )
    assert package(*function, HERE)
    (function.source / "models.py").write_text(
        "def read():\n    from pydantic.v1 import BaseModel\n"
    )
    assert package(*function, HERE), "nothing imports it"
    handler.write_text("from . import models\n")
    with pytest.raises(SynthError, match=r"models\.py:2 imports 'pydantic'.*once lock probe"):
        package(*function, HERE)
    assert package(*function, replace(HERE, layers=("arn:aws:lambda:::layer:own:1",)))


def test_a_lock_that_cannot_be_installed_is_refused_with_a_remedy(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("six\n")  # without a version: pip refuses it before it asks an index
    with pytest.raises(SynthError, match="install pip if it is missing") as caught:
        install_wheels([lock], HERE)
    assert str(lock) in str(caught.value)
    assert "--require-hashes" in str(caught.value)


build = partial(build_once, keep_seconds=3600)


def test_a_folder_that_two_build_at_once_is_whole(tmp_path: Path) -> None:
    both = Barrier(2)

    def fill(folder: Path) -> None:
        (folder / "first").touch()
        both.wait(timeout=120)
        (folder / "second").touch()

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: build(tmp_path / "x", fill), range(2)))
    assert results == [tmp_path / "x"] * 2
    assert names(tmp_path / "x") == {"first", "second"}
    assert names(tmp_path) == {"x"}


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "x", fill)
    assert names(tmp_path) == set()


def test_a_build_deletes_folders_that_were_not_used_for_an_hour(tmp_path: Path) -> None:
    for name in ("old", "used", ".part-killed", "new"):
        build(tmp_path / name, lambda folder: (folder / "file").touch())
    for name in ("old", "used", ".part-killed"):
        os.utime(tmp_path / name, (0, 0))
    build(tmp_path / "used", lambda _: pytest.fail("built again"))
    assert names(tmp_path) == {"old", "used", ".part-killed", "new"}  # no build
    build(tmp_path / "x", lambda folder: None)
    assert names(tmp_path) == {"used", "new", "x"}


def test_a_folder_that_another_synthesis_uses_is_not_deleted(tmp_path: Path) -> None:
    """The other one takes an old folder into use while this one looks for old folders."""
    build(tmp_path / "old", lambda folder: None)
    os.utime(tmp_path / "old", (0, 0))
    with ThreadPoolExecutor(1) as pool, package_module._locked(tmp_path):
        built = pool.submit(build, tmp_path / "x", lambda folder: None)
        with pytest.raises(TimeoutError):  # it waits for the lock
            built.result(timeout=0.2)
        os.utime(tmp_path / "old")
    assert built.result() == tmp_path / "x"
    assert names(tmp_path) == {"old", "x"}


def test_a_digest_depends_on_where_each_part_ends() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])
    assert digest([b"ab", b"c"]) == digest(iter([b"ab", b"c"]))
