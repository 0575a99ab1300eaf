"""CI, the release and the hooks: least rights, pinned actions, targets and tools of the project."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from proof.supply_chain import release_wheels
from tests.architecture.imports import ROOT

WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
PINNED = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
ON = True
"""YAML 1.1 reads the key `on` as a truth value."""


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_has_no_rights_and_secrets_and_pins_its_actions(workflow: Path) -> None:
    text = workflow.read_text()
    parsed = yaml.safe_load(text)
    steps = [step for job in parsed["jobs"].values() for step in job["steps"]]
    assert parsed["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
    assert len(PINNED.findall(text)) == text.count("uses: ")
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def release_files(job: dict[str, Any]) -> list[str]:
    """Return the files that a job attaches to the release."""
    [created] = [step["run"] for step in job["steps"] if "gh release create" in step.get("run", "")]
    return str(created).partition("--generate-notes ")[2].split()


def test_only_jobs_without_code_of_the_project_sign_publish_and_write() -> None:
    release: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    jobs: dict[str, dict[str, Any]] = release["jobs"]
    assert release[ON] == {"push": {"tags": ["v*"]}}
    assert {name: (job.get("needs"), job.get("permissions")) for name, job in jobs.items()} == {
        "build": (None, None),
        "attest": ("build", {"id-token": "write", "attestations": "write"}),
        "publish": ("attest", {"id-token": "write"}),
        "release": ("publish", {"contents": "write"}),
    }
    steps = jobs.pop("build")["steps"]
    runs = [step["run"] for step in steps if "run" in step]
    assert runs[:4] == ["make wheels", "make test", "make audit", "make docs"]
    [zipped] = runs[4:]
    file = zipped.split()[-2]
    assert zipped == f"python3 -m zipfile -c {file} build/site"
    kept = [step["with"]["path"].split() for step in steps if "path" in step.get("with", {})]
    assert kept == [release_files(jobs["release"])]
    assert file in kept[0]
    for job in jobs.values():
        steps = " ".join(f"{step.get('uses')} {step.get('run')}" for step in job["steps"])
        assert not re.search(r"actions/checkout|\b(make|pip|python|npm)\b", steps)
    assert "password" not in str(jobs["publish"]["steps"])


def test_the_tag_must_be_the_version_of_every_wheel(tmp_path: Path) -> None:
    release_wheels.check_tag("")
    with pytest.raises(ValueError, match=r"the tag v0\.0\.99 is not v.+; set the version in its"):
        release_wheels.build(tmp_path, "v0.0.99")
    assert list(tmp_path.iterdir()) == []
    texts = [(project / "pyproject.toml").read_text() for project in release_wheels.PROJECTS]
    assert len({re.findall(r'^version = "(.+)"$', text, re.MULTILINE)[0] for text in texts}) == 1


def test_a_folder_with_old_wheels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(ValueError, match="is not empty"):
        release_wheels.build(tmp_path)


def test_slow_files_that_make_check_leaves_out_exist() -> None:
    """Pytest ignores a path that does not exist, and would run the moved file again."""
    (folder, names) = re.findall(
        r"^SLOW := \$\(addprefix (\S+), (.+)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )[0]
    assert [name for name in names.split() if not (ROOT / folder / name).is_file()] == []
