"""Forwards each message to a second queue."""

from findings.public_handler import PublicHandler
from redelivery import Subject

_SAMPLE = "python-test-samples/apigw-sqs-lambda-sqs/src/process-input-queue"

HANDLER = PublicHandler(
    name="queue to queue",
    repository="aws-samples/serverless-test-samples",
    commit="a801c92eda191dc1ed0caa4a866500775a861f0f",
    path=f"{_SAMPLE}/process_input_queue.py",
    licence="MIT-0",
    package=(_SAMPLE,),
    subject=Subject(
        handler="process_input_queue.lambda_handler",
        events=({"data": {"id": "t-1", "type": "TEST"}}, {"data": {"id": "t-2", "type": "TEST"}}),
        environment={"OUTPUT_QUEUE_NAME": "{queue:output}"},
        queues=("output",),
        batch_failures=False,
        timeout_seconds=5,
        visibility_seconds=5,
        max_receives=1,
    ),
)
