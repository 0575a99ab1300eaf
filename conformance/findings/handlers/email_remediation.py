"""Repairs the address in a message of a dead-letter queue and sends the message to a queue."""

from findings.handlers.repositories import SERVERLESS_PATTERNS, SERVERLESS_PATTERNS_COMMIT
from findings.public_handler import PublicHandler
from redelivery import Subject


def _message(message_id: str) -> dict[str, object]:
    return {
        "messageId": message_id,
        "messageType": "TYPE_A",
        "payload": {"email": f"{message_id}@example.con", "data": "some data"},
        "timestamp": "2026-01-02T03:04:05Z",
    }


HANDLER = PublicHandler(
    name="email remediation",
    repository=SERVERLESS_PATTERNS,
    commit=SERVERLESS_PATTERNS_COMMIT,
    path="serverless-message-processing/functions/decision_maker/app.py",
    licence="MIT-0",
    package=("serverless-message-processing/functions/decision_maker",),
    subject=Subject(
        handler="app.lambda_handler",
        events=(_message("m-1"), _message("m-2")),
        environment={"MAIN_QUEUE_URL": "{queue:main}", "FATAL_DLQ_URL": "{queue:fatal}"},
        queues=("main", "fatal"),
        timeout_seconds=29,
        visibility_seconds=30,
    ),
)
