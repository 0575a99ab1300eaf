"""Packages do not depend on the state of the machine that builds them: same input, same bytes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from once.cdk.packaging.function_package import SITES, package
from stacks.folders import ROOT
from tests.cdk.packages import EVERY, HERE, tree

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
