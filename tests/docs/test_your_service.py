"""The page of a service of one's own: its app, its handlers, its options and its pipeline."""

import re
import runpy
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from once.cdk import Auth, ConsumerProps, DeploymentConfig, TableProps, consumer_set_faults
from once.cdk.checks.handlers_in_code import handler_faults
from tests.architecture.imports import ROOT
from tests.docs.test_examples import blocks
from tests.docs.test_guarantees import table
from tests.stacks.cloud import without_packages

yaml: Any = import_module("yaml")  # without types
PAGE = ROOT / "docs" / "your-service.md"
TEXT = PAGE.read_text()
WHEEL = ROOT / "tests" / "wheel" / "app"
CONSUMERS, APP, *MODULES, COMMANDS, CONSTRUCT = blocks(PAGE)


@pytest.mark.parametrize(
    ("block", "file"),
    [(CONSUMERS, "consumers.py"), (APP, "app.py"), (CONSTRUCT, "construct.py")],
    ids=["registry", "app", "construct"],
)
def test_a_block_is_a_file_of_an_app_that_is_synthesized(block: str, file: str) -> None:
    assert block == (WHEEL / file).read_text()


@pytest.mark.parametrize(
    ("app", "stacks"),
    [
        ("app.py", {f"tickets-{s}-{p}" for s in ("test", "prod") for p in ("state", "service")}),
        ("construct.py", {"tickets"}),
    ],
)
def test_an_app_of_the_page_is_synthesized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, stacks: set[str]
) -> None:
    existing = {
        "seats_arn": "arn:aws:dynamodb:eu-west-1:111122223333:table/seats",
        "bookings_arn": "arn:aws:sqs:eu-west-1:111122223333:bookings",
    }
    made = cdk.App(outdir=str(tmp_path), context=existing, analytics_reporting=False)
    for place in ("aws_cdk.App", "once.cdk.app.assembly.App"):
        monkeypatch.setattr(place, lambda: made)
    monkeypatch.setattr("sys.argv", [app])
    monkeypatch.syspath_prepend(str(WHEEL))
    with without_packages():
        runpy.run_path(str(WHEEL / app), run_name="__main__")
    templates = tmp_path.glob("*.template.json")
    assert {each.name.removesuffix(".template.json") for each in templates} == stacks


def test_the_line_of_commands_has_no_fault_and_the_table_shows_its_scopes() -> None:
    made: dict[str, Any] = {}
    exec(COMMANDS, made)
    assert consumer_set_faults(made["COMMANDS"], DeploymentConfig()) == []
    scopes_of = TEXT.partition("| `auth=` |")[2].partition("\n\n")[0]
    shown = [(r[0], {*re.findall(r"Scope\.(\w+)\(", r[2])}) for r in table(f"| {scopes_of}")]
    for auth, scopes in shown:
        [kind] = re.findall(r"Auth\.(\w+)\(", auth)
        assert {*Auth(kind).scopes} == scopes | {"by"}
    assert len(shown) == 3


def test_handlers_of_several_modules_are_read_and_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "functions_of_page"
    folder.mkdir()
    for name, module in zip(("shared", "refunds", "handler"), MODULES, strict=True):
        (folder / f"{name}.py").write_text(module)
    seats = TableProps("seats", "show")
    line = ConsumerProps("tickets", external=("seat.refunded",), tables=(seats,), folder=folder)
    assert [*handler_faults(line)] == []
    faults = [*handler_faults(replace(line, external=("seat.gone",)))]
    assert "refunds.py" in faults[0]
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_module("functions_of_page.refunds").consumer.name == "tickets"


OPTIONS = {
    *("stages", "tags", "network", "keys", "permissions_boundary", "layers", "keep_data"),
    *("existing_tables", "existing_queues", "global_tables"),
}


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its own heading."""
    return table(TEXT.split(f"## {heading}\n", 1)[1].split("\n### ")[0])


def test_each_option_names_a_test_that_exists() -> None:
    files = ("test_account_options.py", "test_global_tables.py")
    tests = "".join((ROOT / "tests" / "stacks" / each).read_text() for each in files)
    named = {name for row in rows("Options") for name in re.findall(r"`(\w+)`", row[0])}
    assert named - {"stages", "run_app"} <= {field.name for field in fields(DeploymentConfig)}
    assert named >= OPTIONS
    for row in rows("Options"):
        [test] = re.findall(r"`(test_\w+)`", row[2])
        assert f"def {test}(" in tests


def test_the_pipeline_deploys_each_stage_after_the_one_before() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    jobs: dict[str, Any] = yaml.safe_load(text)["jobs"]
    stages = re.findall(r'Stage\("(\w+)"', APP)
    assert [name for name in jobs if name in stages] == stages
    order = [jobs[name].get("needs") for name in ("build", *stages, "record")]
    assert order == [None, "build", *stages]
    for name in stages:
        assert jobs[name]["environment"] == name
        assert jobs[name]["permissions"]["id-token"] == "write"
        [deploy] = [step["run"] for step in jobs[name]["steps"] if "deploy " in step.get("run", "")]
        assert "--app cdk.out 'tickets-${{ github.job }}-*'" in deploy
        assert f"tickets-{name}" in APP
    steps = " ".join(step.get("run", "") for step in jobs["record"]["steps"])
    assert "python app.py record" in steps
