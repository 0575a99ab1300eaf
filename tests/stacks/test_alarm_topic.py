"""The topic that alarms notify, and its key."""

from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, flat, listed


def test_every_alarm_notifies_the_topic_when_it_begins_and_ends(either_cloud: Cloud) -> None:
    topic = [either_cloud.ref("Alarms")]
    alarms = either_cloud.every("AWS::CloudWatch::Alarm").values()
    assert len(alarms) > len(CONSUMERS)
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == topic for alarm in alarms)


def allowed_to_cloudwatch(policy: Json) -> Json:
    (found,) = (
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        and {"Service": "cloudwatch.amazonaws.com"} in listed(statement["Principal"])
    )
    return dict(found)


def test_cloudwatch_may_publish_to_the_topic_and_use_its_key(cloud: Cloud) -> None:
    # Without both, CloudWatch drops the notification without an error.
    assert cloud.of("Alarms")["KmsMasterKeyId"] == cloud.arn("AlarmKey")
    publish = allowed_to_cloudwatch(cloud.of("Alarms", "Policy")["PolicyDocument"])
    assert publish["Action"] == "sns:Publish"
    assert flat(publish["Condition"]["ArnLike"]["aws:SourceArn"]) == (
        "arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:*"
    )
    use = allowed_to_cloudwatch(cloud.of("AlarmKey")["KeyPolicy"])
    assert use["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_the_topics_key_rotates_and_is_deleted_with_the_stack(cloud: Cloud) -> None:
    key = cloud.resource("AlarmKey")
    assert key["Properties"]["EnableKeyRotation"] is True
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("Delete", "Delete")
