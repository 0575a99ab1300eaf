"""`once new service` of the wheel in an empty folder: tested, extended, deployed, and sent to."""

import json
import subprocess

import pytest

from demo.quiescence import wait_until
from emulator.cdk_cli import Outputs, deploy
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.queue_depth import depth
from tests.wheel.conftest import Installation, step

NAME = "box-office"


@pytest.fixture(scope="module")
def service(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An empty folder but for a cache, which is hidden and so does not count."""
    folder = tmp_path_factory.mktemp("new") / NAME
    folder.mkdir()
    cache = installation.folder / ".cache"
    cache.mkdir(exist_ok=True)
    (folder / ".cache").symlink_to(cache)
    return Installation(installation.venv, folder)


@pytest.fixture(scope="module")
def tested(service: Installation) -> Installation:
    """The service and a second consumer, each with its tests green right after it was written."""
    for command, count in ((("service", NAME), 2), (("consumer", "refunds"), 4)):
        with step(f"once new {' '.join(command)}, make test"):
            done = service.run("once", "new", *command)
            assert done.returncode == 0, done.stderr
            shown = _make_test(service)
            assert f"{count} passed" in shown, shown
    return service


@pytest.fixture(scope="module")
def outputs(tested: Installation, account: EmbeddedAws) -> Outputs:
    with step("new service deployed"):
        return deploy(
            account,
            app=f"{tested.venv / 'bin' / 'python'} app.py",
            cwd=tested.folder,
            outputs=tested.folder / "outputs.json",
        )


def _make_test(service: Installation) -> str:
    command = ["make", "test", f"PYTHON={service.venv / 'bin' / 'python'}"]
    done = subprocess.run(command, cwd=service.folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("consumer", ["ticket", "refund"])
def test_an_event_that_is_sent_twice_changes_a_table_of_the_new_service_once(
    tested: Installation,
    account: EmbeddedAws,
    outputs: Outputs,
    monkeypatch: pytest.MonkeyPatch,
    consumer: str,
) -> None:
    for name, value in account.environment().items():
        monkeypatch.setenv(name, value)
    event = json.loads((tested.folder / "events" / f"{consumer}-requested.json").read_text())
    options = ("--type", event["type"], "--id", "one", "--data", json.dumps(event["data"]))
    for _ in range(2):
        sent = tested.run("once", "send", "--service", NAME, *options)
        assert sent.returncode == 0, sent.stderr
    state, service = outputs[f"{NAME}-state"], outputs[f"{NAME}-service"]
    queue, sqs = service[f"Queue{consumer.title()}s"], account.client("sqs")
    wait_until("empty queue", lambda: depth(sqs, queue).total == 0, timeout=60)
    dynamodb = account.client("dynamodb")
    [item] = dynamodb.scan(TableName=state[f"Table{consumer.title()}s"])["Items"]
    assert item[f"{consumer}_id"] == {"S": f"sample-{consumer}"}
    assert "repetitions" not in item
    records = dynamodb.scan(TableName=state["DedupTable"])["Items"]
    keys = [each["pk"]["S"].partition("#")[0] for each in records]
    assert keys.count(f"{consumer}s") == 1


def test_the_new_service_has_a_workflow_of_continuous_integration(tested: Installation) -> None:
    workflow = tested.folder / ".github" / "workflows" / "ci.yml"
    assert "make install test synth" in workflow.read_text()
