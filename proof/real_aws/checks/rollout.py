"""Check of a gradual rollout: CodeDeploy moves the alias while messages are in flight."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from once.names import LIVE_ALIAS
from proof.real_aws.checks.check import Check, Seen, not_observed, verdict, waiting
from proof.real_aws.target import Target

PAUSE_SECONDS = 5.0
"""Time between two events during the deployment."""
EVENTS = 300
"""The most that are sent, if the deployment takes 25 minutes."""
_CANARY = "Canary10Percent5Minutes"


def _rollout(target: Target) -> Iterator[Seen]:
    if target.local:
        yield not_observed("it was deployed with local=true, which leaves CodeDeploy out")
        return
    before = _version(target)
    with _publishing(target) as names:
        target.redeploy(log_level="DEBUG")
    while set(amounts := target.amounts(names, "followers").values()) != {1}:
        if max(amounts) > 1:
            break
        yield waiting(f"{sum(amounts)} of {len(names)} counted")
    after, deployments = _version(target), _deployments(target)
    moved = [(one["status"], _CANARY in one["deploymentConfigName"]) for one in deployments]
    counted = f"{sum(amounts)} times, {len(names)} events of that time counted"
    holds = after != before and ("Succeeded", True) in moved and set(amounts) == {1}
    yield verdict(holds, f"version {before} to {after}; deployments: {moved}; {counted}")


@contextmanager
def _publishing(target: Target) -> Iterator[list[str]]:
    """Publish an event now and then; the list has the names of those that were sent."""
    names: list[str] = []
    over = Event()

    def publish() -> None:
        while not over.wait(PAUSE_SECONDS):
            name = f"rollout-{len(names)}"
            target.publish([target.asked(name, publishes=True)])
            names.append(name)

    thread = Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield names
    finally:
        over.set()
        thread.join()


def _version(target: Target) -> str:
    function = target.parts.consumer("follower").function_name
    alias = target.client("lambda").get_alias(FunctionName=function, Name=LIVE_ALIAS)
    return str(alias["FunctionVersion"])


def _deployments(target: Target) -> list[dict[str, Any]]:
    codedeploy = target.client("codedeploy")
    names = codedeploy.list_applications()["applications"]
    own = [name for name in names if name.startswith(f"{target.parts.service}-")]
    ids = [
        each
        for name in own
        for group in codedeploy.list_deployment_groups(applicationName=name)["deploymentGroups"]
        for each in codedeploy.list_deployments(applicationName=name, deploymentGroupName=group)[
            "deployments"
        ]
    ]
    return [codedeploy.get_deployment(deploymentId=each)["deploymentInfo"] for each in ids]


ROLLOUT = Check(
    "rollout",
    f"a deployment moves the live alias by CodeDeploy ({_CANARY}), and events in flight count once",
    1800,
    _rollout,
    if_not="set gradual_rollout to false, and report the deployment's events",
)
