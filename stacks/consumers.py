"""The registry. One line here and one folder in `functions/` make a consumer, or commands."""

from once.cdk import Auth, CommandProps, ConsumerProps, TableProps

ORDERS = TableProps("orders", "order_id")
CUSTOMERS = TableProps("customers", "customer_id")
STOCK = TableProps("stock", "sku")
RESERVATIONS = TableProps("reservations", "order_id")
PAYMENTS = TableProps("payments", "order_id")
NOTIFICATIONS = TableProps("notifications", "order_id")

CONSUMERS = (
    ConsumerProps(
        "orders",
        external=("order.placed",),
        events=(
            *("order.submitted", "stock.refused", "payment.captured", "payment.declined"),
            "order.cancelled",
            "stripe.charge.refunded",  # a webhook
        ),
        tables=(ORDERS, CUSTOMERS),
        aws_services=(),
    ),
    ConsumerProps(
        "inventory",
        external=("order.placed",),
        events=("order.submitted", "payment.captured", "payment.declined", "order.cancelled"),
        tables=(STOCK, RESERVATIONS),
        publishes=("stock.reserved", "stock.refused"),
        publishes_later=("payment.overdue",),
        parameters=("payment_seconds",),
        aws_services=(),
    ),
    ConsumerProps(
        "payments",
        events=(
            *("stock.reserved", "payment.overdue", "refund.asked"),
            "stripe.payment_intent.succeeded",  # a webhook
        ),
        tables=(PAYMENTS,),
        publishes=("payment.captured", "payment.declined", "order.cancelled", "refund.asked"),
        max_receive_count=12,  # a provider may be down for hours
        effect_timeout_seconds=8,
        timeout_seconds=30,
        secrets=("stripe_key",),
        parameters=("payment_api",),
        aws_services=(),
    ),
    ConsumerProps(
        "notifications",
        events=("payment.captured", "payment.declined", "order.cancelled", "stock.refused"),
        tables=(NOTIFICATIONS,),
        max_receive_count=12,
        effect_timeout_seconds=3,
        timeout_seconds=15,
        sends_email=True,
        aws_services=("sesv2",),
    ),
)

COMMANDS = (
    CommandProps(
        "checkout",
        tables=(ORDERS,),
        routes={"POST /orders": "place-order"},
        auth=Auth.iam(),
        publishes=("order.submitted",),
        aws_services=(),
    ),
)
