"""The release workflow: only jobs without code of the project may sign, publish or write."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from proof.supply_chain import release_wheels
from tests.architecture.imports import ROOT

WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
RELEASE: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
JOBS: dict[str, dict[str, Any]] = RELEASE["jobs"]
ON = True
"""YAML 1.1 reads the key `on` as a truth value."""


def actions_of(job: str) -> list[str]:
    return [step["uses"].partition("@")[0] for step in JOBS[job]["steps"] if "uses" in step]


def runs_of(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_has_no_secret_and_no_value_in_a_command(workflow: Path) -> None:
    text = workflow.read_text()
    assert "secrets." not in text
    jobs = yaml.safe_load(text)["jobs"].values()
    steps = [step for job in jobs for step in job["steps"]]
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_only_a_tag_starts_a_release_and_each_job_waits_for_the_one_before() -> None:
    assert RELEASE[ON] == {"push": {"tags": ["v*"]}}
    assert {name: job.get("needs") for name, job in JOBS.items()} == {
        "build": None,
        "attest": "build",
        "publish": "attest",
        "release": "publish",
    }


def test_each_job_has_the_least_permissions() -> None:
    assert RELEASE["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions") for name, job in JOBS.items()} == {
        "build": None,
        "attest": {"id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
        "release": {"contents": "write"},
    }


def test_the_job_that_runs_the_project_tests_and_audits_before_it_hands_on_its_files() -> None:
    assert runs_of("build") == ["make wheels", "make test", "make audit"]
    assert JOBS["build"]["steps"][2]["env"] == {"TAG": "${{ github.ref_name }}"}
    assert actions_of("build")[-1] == "actions/upload-artifact"
    assert "uses" in JOBS["build"]["steps"][-1]
    for job in JOBS.keys() - {"build"}:
        assert "actions/checkout" not in actions_of(job)
        assert not re.search(r"\b(make|pip|python|npm)\b", " ".join(runs_of(job)))


def test_wheels_and_bills_of_materials_are_attested_and_attached() -> None:
    attested = JOBS["attest"]["steps"][-1]
    assert attested["uses"].startswith("actions/attest-build-provenance@")
    assert attested["with"]["subject-path"].split() == ["dist/*.whl", "reports/sbom/*.json"]
    (attach,) = runs_of("release")
    assert attach.split()[-3:] == ["dist/*.whl", "reports/sbom/*.json", "reports/audit.json"]


def test_publishing_has_no_password() -> None:
    (publish,) = (step for step in JOBS["publish"]["steps"] if "pypi-publish" in step["uses"])
    assert publish["with"] == {"packages-dir": "dist"}
    assert JOBS["publish"]["environment"] == "pypi"


def test_the_tag_must_be_the_version_of_every_wheel(tmp_path: Path) -> None:
    release_wheels.check_tag("")
    with pytest.raises(ValueError, match=r"the tag v0\.0\.99 is not v.+; set the version in its"):
        release_wheels.build(tmp_path, "v0.0.99")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_old_wheels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(ValueError, match="is not empty"):
        release_wheels.build(tmp_path)


def test_the_versions_of_all_wheels_are_equal() -> None:
    texts = [(project / "pyproject.toml").read_text() for project in release_wheels.PROJECTS]
    assert len({re.findall(r'^version = "(.+)"$', text, re.MULTILINE)[0] for text in texts}) == 1
