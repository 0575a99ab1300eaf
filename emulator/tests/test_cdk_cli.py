"""The CDK's command line: the warnings in its output, and FIFO topics that it has deployed."""

import json

from emulator.cdk_cli import mark_fifo_topics, warnings_of
from emulator.embedded_aws import EmbeddedAws

LOG = """\
WARNING consumer 'tickets': the event types cannot be read (tickets/handler.py:21)
   box-office-service/tickets constructs.Construct
   Acknowledge with 'Annotation::once:unread-handlers'
Successfully synthesized to cdk.out
WARNING consumer 'tickets': the event types cannot be read (tickets/handler.py:21)
[Warning at /box-office-service] events can cause one another
"""


def test_each_warning_of_the_synthesis_is_returned_once() -> None:
    assert warnings_of(LOG) == [LOG.splitlines()[0], LOG.splitlines()[-1]]


TEMPLATE = {
    "Resources": {
        "Ordered": {
            "Type": "AWS::SNS::Topic",
            "Properties": {"TopicName": "marked.fifo", "FifoTopic": True},
        },
        "Plain": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "unmarked"}},
    }
}


def test_a_fifo_topic_of_a_stack_is_marked_and_no_other(aws: EmbeddedAws) -> None:
    aws.client("cloudformation").create_stack(
        StackName="fifo-topics", TemplateBody=json.dumps(TEMPLATE)
    )
    sns = aws.client("sns")
    arns = [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]
    [ordered] = [arn for arn in arns if arn.endswith(":marked.fifo")]
    [plain] = [arn for arn in arns if arn.endswith(":unmarked")]
    mark_fifo_topics(aws)
    assert sns.get_topic_attributes(TopicArn=ordered)["Attributes"]["FifoTopic"] == "true"
    assert "FifoTopic" not in sns.get_topic_attributes(TopicArn=plain)["Attributes"]
