"""FIFO topics, after a deployment: the embedded AWS makes them without the attribute `FifoTopic`.

Without it, a topic drops the message groups and deduplicates nothing. Topics that are made by an
API call have it.
"""

from emulator.connection import Connection

SUFFIX = ".fifo"


def mark_fifo_topics(aws: Connection) -> None:
    """Give each topic whose name ends with `.fifo` the attribute that CloudFormation left out."""
    sns = aws.client("sns")
    for page in sns.get_paginator("list_topics").paginate():
        for topic in page["Topics"]:
            if topic["TopicArn"].endswith(SUFFIX):
                sns.set_topic_attributes(
                    TopicArn=topic["TopicArn"], AttributeName="FifoTopic", AttributeValue="true"
                )
