"""The key and the policy of the ingress topic: its publishers, and no one else, are let in."""

import pytest

from tests.stacks.cloud import Cloud, Json, flat, listed

OTHER = "111122223333"
SNS = "sns.<AWS::Region>.amazonaws.com"
TOPICS = "arn:<AWS::Partition>:sns:<AWS::Region>:<AWS::AccountId>:*"
OWN_ACCOUNT = "<AWS::AccountId>"
OWN = {"StringEquals": {"kms:ViaService": SNS, "kms:CallerAccount": OWN_ACCOUNT}}


@pytest.fixture(scope="module")
def open_cloud(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """The app with each kind of publisher beside the account."""
    folder = tmp_path_factory.mktemp("publishers") / "out"
    return Cloud.synthesize(folder, ingress_publishers=f"s3, events,{OTHER}")


def allowed(policy: Json) -> dict[str, Json]:
    """Return the statements with an id of a policy: actions and conditions."""
    return {
        statement["Sid"]: {
            operator: {name: flat(value) for name, value in keys.items()}
            for operator, keys in statement.get("Condition", {}).items()
        }
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow" and "Sid" in statement
    }


def test_the_key_rotates_and_is_retained_with_the_topic(cloud: Cloud) -> None:
    assert cloud.of("Ingress")["KmsMasterKeyId"] == cloud.arn("IngressKey")
    key = cloud.resource("IngressKey")
    assert key["Properties"]["EnableKeyRotation"] is True
    assert key["DeletionPolicy"] == cloud.resource("Ingress")["DeletionPolicy"]


def test_by_default_principals_of_this_account_alone_use_the_key_and_publish(cloud: Cloud) -> None:
    assert allowed(cloud.of("IngressKey")["KeyPolicy"]) == {"ThisAccount": OWN}
    assert allowed(cloud.of("Ingress", "Policy")["PolicyDocument"]) == {}


def test_each_publisher_uses_the_key_through_the_topics_only(open_cloud: Cloud) -> None:
    policy = open_cloud.of("IngressKey")["KeyPolicy"]
    context = {"StringLike": {"kms:EncryptionContext:aws:sns:topicArn": TOPICS}}
    assert allowed(policy) == {
        "ThisAccount": OWN,
        "ServiceS3": {**context, "StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": context,
        f"Account{OTHER}": {"StringEquals": {"kms:ViaService": SNS}},
    }
    for statement in policy["Statement"]:
        if "Sid" in statement:
            assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_each_publisher_publishes_to_the_ingress_topic_and_to_no_other(open_cloud: Cloud) -> None:
    policy = open_cloud.of("Ingress", "Policy")["PolicyDocument"]
    assert allowed(policy) == {
        "ServiceS3": {"StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": {},  # AWS documents that EventBridge cannot meet a condition
        f"Account{OTHER}": {},
    }
    principals = {
        statement["Sid"]: [flat(one) for one in listed(next(iter(statement["Principal"].values())))]
        for statement in policy["Statement"]
        if "Sid" in statement and statement["Effect"] == "Allow"
    }
    assert principals == {
        "ServiceS3": ["s3.amazonaws.com"],
        "ServiceEvents": ["events.amazonaws.com"],
        f"Account{OTHER}": [f"arn:<AWS::Partition>:iam::{OTHER}:root"],
    }
    actions = {s["Action"] for s in policy["Statement"] if s["Effect"] == "Allow"}
    assert actions == {"sns:Publish"}
    assert allowed(open_cloud.of("Events", "Policy")["PolicyDocument"]) == {}


def test_the_relays_topic_has_the_key_of_aws(cloud: Cloud) -> None:
    # In an account that never used it, the key has no ARN yet.
    assert cloud.of("Events")["KmsMasterKeyId"] == "alias/aws/sns"
