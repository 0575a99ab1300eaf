"""The key and the policy of the ingress topic: its publishers, and no one else, are let in."""

from tests.stacks.cloud import Cloud, Json, flat, listed
from tests.stacks.full_service import ACCOUNT, TEST, Stacks

SNS = "sns.<AWS::Region>.amazonaws.com"
OWN_ACCOUNT = "<AWS::AccountId>"
OWN = {"StringEquals": {"kms:ViaService": SNS, "kms:CallerAccount": OWN_ACCOUNT}}


def allowed(policy: Json) -> dict[str, Json]:
    """Return the conditions of the permissions with an id, as text that names no account."""
    return {
        statement["Sid"]: {
            operator: {name: unnamed(value) for name, value in keys.items()}
            for operator, keys in statement.get("Condition", {}).items()
        }
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow" and "Sid" in statement
    }


def unnamed(value: object) -> str:
    text = flat(value).replace(TEST.account, OWN_ACCOUNT)
    return text.replace(TEST.region, "<AWS::Region>")


def of_publishers(stacks: Stacks, kind: str, part: str) -> Json:
    """Return a part of the stage that lets S3, EventBridge and another account publish."""
    every = stacks.every(kind, "test").items()
    found: Json
    [found] = [each for name, each in every if name.startswith(part)]
    return found


def test_the_key_rotates_and_is_retained_with_the_topic(cloud: Cloud) -> None:
    assert cloud.of("Ingress")["KmsMasterKeyId"] == cloud.arn("IngressKey")
    key = cloud.resource("IngressKey")
    assert key["Properties"]["EnableKeyRotation"] is True
    assert key["DeletionPolicy"] == cloud.resource("Ingress")["DeletionPolicy"]
    # The relay's topic has the key of AWS. In an account that never used it, it has no ARN yet.
    assert cloud.of("Events")["KmsMasterKeyId"] == "alias/aws/sns"


def test_by_default_principals_of_this_account_alone_use_the_key_and_publish(cloud: Cloud) -> None:
    assert allowed(cloud.of("IngressKey")["KeyPolicy"]) == {"ThisAccount": OWN}
    assert allowed(cloud.of("Ingress", "Policy")["PolicyDocument"]) == {}


def test_each_publisher_uses_the_key_through_the_topics_only(stacks: Stacks) -> None:
    policy = of_publishers(stacks, "AWS::KMS::Key", "IngressKey")["KeyPolicy"]
    topics = "arn:aws:sns:<AWS::Region>:<AWS::AccountId>:*"
    context = {"StringLike": {"kms:EncryptionContext:aws:sns:topicArn": topics}}
    assert allowed(policy) == {
        "ThisAccount": OWN,
        "ServiceS3": {**context, "StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": context,
        f"Account{ACCOUNT}": {"StringEquals": {"kms:ViaService": SNS}},
    }
    for statement in policy["Statement"]:
        if "Sid" in statement:
            assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_each_publisher_publishes_to_the_ingress_topic_and_to_no_other(stacks: Stacks) -> None:
    policy = of_publishers(stacks, "AWS::SNS::TopicPolicy", "IngressPolicy")["PolicyDocument"]
    assert allowed(policy) == {
        "ServiceS3": {"StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": {},  # AWS documents that EventBridge cannot meet a condition
        f"Account{ACCOUNT}": {},
    }
    given = [s for s in policy["Statement"] if "Sid" in s and s["Effect"] == "Allow"]
    assert {s["Action"] for s in given} == {"sns:Publish"}
    principals = [flat(one) for s in given for one in listed(next(iter(s["Principal"].values())))]
    other = f"arn:aws:iam::{ACCOUNT}:root"
    assert principals == ["s3.amazonaws.com", "events.amazonaws.com", other]
    events = of_publishers(stacks, "AWS::SNS::TopicPolicy", "EventsPolicy")["PolicyDocument"]
    assert allowed(events) == {}
