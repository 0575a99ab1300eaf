"""Events that are published later: their schedules, Scheduler's role, and what watches both."""

from dataclasses import replace
from pathlib import Path

import pytest

from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.deployment_options import DeploymentConfig
from once.names import RELAY, Metric
from once.settings import RelaySettings, Settings
from tests.stacks.booking_office import booking_office
from tests.stacks.cloud import Cloud, environment, flat, placeholder, statements
from tests.stacks.iam_reference import PSEUDO, followed
from tests.stacks.policies import Request, allows
from tests.stacks.test_alarms import on_math
from tests.stacks.test_boundaries import may_publish
from tests.stacks.test_declared import LATER, TAKES

ROLE = (RELAY, "ScheduleRole")
GROUP = "schedules"
"""Logical id in the state stack."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """A consumer that publishes a type later, and one that takes it."""
    return booking_office(tmp_path_factory.mktemp("later"), [LATER, TAKES])


def test_group_and_role_outlive_the_stacks_and_the_group_has_no_name_that_is_taken(
    office: Cloud,
) -> None:
    made, role = office.state["Resources"][GROUP], office.resource(*ROLE)
    assert "Name" not in made.get("Properties", {})
    for each in (made, role):
        assert each["DeletionPolicy"] == "RetainExceptOnCreate"
        assert each["UpdateReplacePolicy"] == "Retain"


def test_scheduler_alone_assumes_the_role_and_for_schedules_of_the_group_only(
    office: Cloud,
) -> None:
    (trust,) = office.of(*ROLE)["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    only = trust["Condition"]["StringEquals"]
    assert only["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
    assert office.resolved(only["aws:SourceArn"]) == placeholder(GROUP, "Arn")


def test_the_role_publishes_events_and_dead_letters_and_does_nothing_else(office: Cloud) -> None:
    [policy] = office.of(*ROLE)["Policies"]
    found = policy["PolicyDocument"]["Statement"]
    assert {each["Action"]: flat(each["Resource"]) for each in found} == {
        "sns:Publish": office.text("Events"),
        "sqs:SendMessage": office.text(RELAY, "DeadLetters", attribute="Arn"),
    }
    rights = [each | {"Resource": flat(each["Resource"])} for each in found]
    assert may_publish(office, "Events", office.text(*ROLE, attribute="Arn"), rights)


def test_the_relay_creates_schedules_in_the_group_and_passes_that_role_to_scheduler_only(
    office: Cloud,
) -> None:
    found = {each["Sid"]: each for each in statements(office, RELAY)}
    templates = {"once-state": office.state, "once-service": office.service}
    create = followed(found["CreateSchedules"], "once-service", templates)
    here = f"{PSEUDO['AWS::Region']}:{PSEUDO['AWS::AccountId']}"
    place = f"arn:{PSEUDO['AWS::Partition']}:scheduler:{here}:schedule"
    for name, allowed in ((GROUP, True), ("default", False), (f"{GROUP}-2", False)):
        request = Request("scheduler:CreateSchedule", f"{place}/{name}/1")
        assert allows(request, [create]) is allowed
    may_pass, role = found["PassScheduleRole"], flat(office.arn(*ROLE))
    for service, allowed in (("scheduler", True), ("lambda", False)):
        passed = {"iam:PassedToService": [f"{service}.amazonaws.com"]}
        own = may_pass | {"Resource": flat(may_pass["Resource"])}
        assert allows(Request("iam:PassRole", role, passed), [own]) is allowed


def test_the_functions_are_told_what_is_published_later_and_how(office: Cloud) -> None:
    box = Settings.from_env(environment(office, LATER))
    assert (box.publishes, box.publishes_later) == (("box.made",), ("box.made",))
    told = RelaySettings.from_env(environment(office, RELAY))
    assert told.publishes == {"box": ("box.made",)}
    assert told.schedules is not None
    assert told.schedules.role_arn == office.text(*ROLE, attribute="Arn")
    assert told.schedules.dead_letter_arn == office.text(RELAY, "DeadLetters", attribute="Arn")


def test_late_due_events_alarm_where_they_are_taken_and_failing_ones_at_the_relay(
    office: Cloud,
) -> None:
    alarm = office.of(TAKES, "DueAlarm")
    assert (alarm["MetricName"], alarm["Threshold"]) == (Metric.DUE_LATE_MS, 15 * 60 * 1000)
    with pytest.raises(KeyError):
        office.of(LATER, "DueAlarm")
    name, *watched = on_math(office.of(RELAY, "RelayAlarm"))["due"]
    assert (name, watched[:2]) == ("TargetErrorCount", ["Sum", 300])


def test_an_ordered_type_is_not_published_later(tmp_path: Path) -> None:
    ordered = replace(TAKES, fifo=True, ordered_by="box_id")
    faults = consumer_set_faults([LATER, ordered], DeploymentConfig())
    assert [each for each in faults if "publishes_later has 'box.made'" in each]
    faults = consumer_set_faults([LATER, TAKES], DeploymentConfig())
    assert [each for each in faults if "publishes_later" in each] == []
