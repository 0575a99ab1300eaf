"""Events as AWS documents them, with values in place of the placeholders of the pages.

Sources: "Event message structure" (Amazon S3 User Guide), "Using EventBridge" (the same, `Object
Created`), "State change events for Amazon EC2 instances" (Amazon EC2 User Guide), "HTTP/HTTPS
notification JSON format" (Amazon SNS Developer Guide: SQS gets the same object), "Adding context
attributes" (EventBridge Scheduler User Guide).
"""

import json
from copy import deepcopy
from typing import Any

Event = dict[str, Any]

EC2: Event = {
    "id": "7bf73129-1428-4cd3-a780-95db273d1602",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "account": "123456789012",
    "time": "2021-11-11T21:29:54Z",
    "region": "us-east-1",
    "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-1234567890abcdef0"],
    "detail": {"instance-id": "i-1234567890abcdef0", "state": "pending"},
}

OBJECT_CREATED: Event = {
    "version": "0",
    "id": "17793124-05d4-b198-2fde-7ededc63b103",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "account": "111122223333",
    "time": "2021-11-12T00:00:00Z",
    "region": "ca-central-1",
    "resources": ["arn:aws:s3:::amzn-s3-demo-bucket1"],
    "detail": {
        "version": "0",
        "bucket": {"name": "amzn-s3-demo-bucket1"},
        "object": {
            "key": "example-key",
            "size": 5,
            "etag": "b1946ac92492d2347c6235b4d2611184",
            "version-id": "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
            "sequencer": "617f08299329d189",
        },
        "request-id": "N4N7GDK58NMKJ12R",
        "requester": "123456789012",
        "source-ip-address": "1.2.3.4",
        "reason": "PutObject",
    },
}

S3_PUT: Event = {
    "Records": [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": "us-west-2",
            "eventTime": "1970-01-01T00:00:00.000Z",
            "eventName": "ObjectCreated:Put",
            "userIdentity": {"principalId": "AIDAJDPLRKLG7UEXAMPLE"},
            "requestParameters": {"sourceIPAddress": "172.16.0.1"},
            "responseElements": {
                "x-amz-request-id": "C3D13FE58DE4C810",
                "x-amz-id-2": "FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG4V5Wp6S7S/JRWeUWerMUE5JgHvANOjpD",
            },
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": "testConfigRule",
                "bucket": {
                    "name": "amzn-s3-demo-bucket",
                    "ownerIdentity": {"principalId": "A3NL1KOZZKExample"},
                    "arn": "arn:aws:s3:::amzn-s3-demo-bucket",
                },
                "object": {
                    "key": "HappyFace.jpg",
                    "size": 1024,
                    "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                    "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
                    "sequencer": "0055AED6DCD90281E5",
                },
            },
        }
    ]
}

S3_TEST: Event = {
    "Service": "Amazon S3",
    "Event": "s3:TestEvent",
    "Time": "2014-10-13T15:57:02.089Z",
    "Bucket": "amzn-s3-demo-bucket",
    "RequestId": "5582815E1AEA5ADF",
    "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR+YstdA6Knx4Ip8EXAMPLE",
}

SNS: Event = {
    "Type": "Notification",
    "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
    "Subject": "My First Message",
    "Message": "Hello world!",
    "Timestamp": "2012-05-02T00:54:06.655Z",
    "SignatureVersion": "1",
    "Signature": "EXAMPLEw6JRN",
    "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService.pem",
    "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=a",
}

SCHEDULED: Event = {
    "specversion": "1.0",
    "id": "2022-03-22T18:59:43Z",
    "source": "once-nightly",
    "type": "night.fell",
    "data": {"scheduled_at": "2022-03-22T18:59:43Z"},
}


def published(content: Any, **changes: str) -> Event:
    """Return the body that SNS delivers for a message with this content."""
    return {**SNS, "Message": json.dumps(content), **changes}


def stored(key: str = "HappyFace.jpg", **changes: Any) -> Event:
    """Return the body that S3 sends for an object with this key, in URL encoding."""
    event = deepcopy(S3_PUT)
    event["Records"][0]["s3"]["object"] |= {"key": key, **changes}
    return event
