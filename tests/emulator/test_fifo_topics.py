"""FIFO topics of a CloudFormation stack in the embedded AWS keep message groups once marked."""

import json

from emulator.cdk_cli import mark_fifo_topics
from emulator.embedded_aws import EmbeddedAws

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
