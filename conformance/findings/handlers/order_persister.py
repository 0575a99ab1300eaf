"""Stores a validated order under the condition that it does not exist; alerts on a duplicate."""

from findings.public_handler import PublicHandler
from redelivery import Subject, Table


def _validated(order_id: str) -> dict[str, object]:
    items = [{"sku": "AWS-EXAM-VOUCHER", "qtd": 1}]
    return {
        "source": "app.orders.validation",
        "detail-type": "OrderValidated",
        "time": "2026-01-02T03:04:05Z",
        "detail": {"pedidoId": order_id, "clienteId": "CLIENT-99", "itens": items},
    }


HANDLER = PublicHandler(
    name="order persister",
    repository="DessimA/aws-serverless-order-management",
    commit="79f0939c8c33a7ffd0b48dd8f6ce7bfa47eb6a78",
    path="src/order_processor/index.py",
    licence="MIT",
    package=("src/order_processor", "src/common"),
    subject=Subject(
        handler="index.lambda_handler",
        events=(_validated("ORD-1001"), _validated("ORD-1002")),
        environment={"DYNAMODB_TABLE": "orders", "SNS_TOPIC_ARN": "{topic:alerts}"},
        tables=(Table("orders", key="orderId"),),
        topics=("alerts",),
        timeout_seconds=60,
        visibility_seconds=360,
        max_receives=3,
    ),
)
