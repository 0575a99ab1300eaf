"""A schedule that sends one event to a consumer's queue at each of its times.

The event's id is the time for which the schedule invokes the queue. EventBridge Scheduler delivers
at least once: a second delivery for one time is a duplicate.
"""

import json
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler

from once.cdk._key_permissions import key_statements
from once.cdk.sources.destination import Destination
from once.source import ScheduleSource

_SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""EventBridge Scheduler replaces it by the time, such as 2022-03-22T18:59:43Z."""


def make_schedule(to: Destination, source: ScheduleSource) -> None:
    """Make the schedule, and a role that may send to the consumer's queues only."""
    schedule = scheduler.CfnSchedule(
        to.scope,
        "Schedule",
        name=to.name,
        schedule_expression=source.expression,
        schedule_expression_timezone=source.timezone,
        flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        state="DISABLED" if to.stopped else "ENABLED",
        target=scheduler.CfnSchedule.TargetProperty(
            arn=to.queue.queue_arn,
            role_arn=_role(to).role_arn,
            input=json.dumps(_event(to)),
            dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                arn=to.dead_letters.queue_arn
            ),
        ),
    )
    schedule.node.add_dependency(*to.after)


def _event(to: Destination) -> dict[str, Any]:
    [event_type] = to.types
    return {
        "specversion": "1.0",
        "id": _SCHEDULED_TIME,
        "source": f"{to.config.service}-{to.props.identity}",  # the same before and after a rename
        "type": event_type,
        "data": {"scheduled_at": _SCHEDULED_TIME},
    }


def _role(to: Destination) -> iam.Role:
    group = to.stack.format_arn(
        service="scheduler", resource="schedule-group", resource_name="default"
    )
    only_here = {
        "StringEquals": {"aws:SourceAccount": to.stack.account},
        "ArnEquals": {"aws:SourceArn": group},
    }
    send = iam.PolicyStatement(
        sid="Send",
        actions=["sqs:SendMessage"],
        resources=[to.queue.queue_arn, to.dead_letters.queue_arn],
    )
    keys = key_statements(to.scope, [("sqs", to.queue.encryption_master_key)])
    return iam.Role(
        to.scope,
        "ScheduleRole",
        assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com", conditions=only_here),
        inline_policies={"Schedule": iam.PolicyDocument(statements=[send, *keys])},
    )
