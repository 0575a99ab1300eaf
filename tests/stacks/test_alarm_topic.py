"""The topic of the alarms: all of them tell it, and a person can subscribe to it."""

from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, denies_plain_http, flat, listed


def test_every_alarm_tells_the_topic_when_it_begins_and_when_it_ends(
    cloud: Cloud, local_cloud: Cloud
) -> None:
    for each in (cloud, local_cloud):
        topic = [{"Ref": each.logical_id("once-service/Alarms")}]
        alarms = each.every("AWS::CloudWatch::Alarm").values()
        assert len(alarms) > len(CONSUMERS)
        assert all(alarm["AlarmActions"] == alarm["OKActions"] == topic for alarm in alarms)


def test_cloudwatch_may_publish_to_the_topic_and_use_its_key(cloud: Cloud) -> None:
    # Without both, an alarm that cannot be told of looks like any other.
    topic = cloud.properties("once-service/Alarms")
    assert topic["KmsMasterKeyId"] == {
        "Fn::GetAtt": [cloud.logical_id("once-service/AlarmKey"), "Arn"]
    }
    (publish,) = allowed(cloud.properties("once-service/Alarms/Policy")["PolicyDocument"])
    assert publish["Action"] == "sns:Publish"
    assert flat(publish["Condition"]["ArnLike"]["aws:SourceArn"]) == (
        "arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:*"
    )
    (use,) = allowed(cloud.properties("once-service/AlarmKey")["KeyPolicy"])
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]


def allowed(policy: Json) -> list[Json]:
    return [
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        and {"Service": "cloudwatch.amazonaws.com"} in listed(statement["Principal"])
    ]


def test_the_topic_refuses_plain_http_and_its_key_rotates(cloud: Cloud) -> None:
    assert denies_plain_http(cloud.properties("once-service/Alarms/Policy"))
    assert cloud.properties("once-service/AlarmKey")["EnableKeyRotation"] is True


def test_a_person_finds_the_topic_in_the_outputs(cloud: Cloud) -> None:
    reference = {"Ref": cloud.logical_id("once-service/Alarms")}
    assert cloud.service["Outputs"]["AlarmTopic"]["Value"] == reference


def test_its_key_goes_with_the_stack(cloud: Cloud) -> None:
    key = cloud.resource("once-service/AlarmKey")
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("Delete", "Delete")
