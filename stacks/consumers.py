"""The registry. One line here and one folder in `functions/` make a consumer."""

from once.cdk.props import Consumer, Table

ORDERS = Table("orders", "order_id")
CUSTOMERS = Table("customers", "customer_id")
STOCK = Table("stock", "sku")
RESERVATIONS = Table("reservations", "order_id")
PAYMENTS = Table("payments", "order_id")
NOTIFICATIONS = Table("notifications", "order_id")

CONSUMERS = (
    Consumer(
        "orders",
        external=("order.placed",),
        events=("stock.refused", "payment.captured", "payment.declined"),
        tables=(ORDERS, CUSTOMERS),
    ),
    Consumer(
        "inventory",
        external=("order.placed",),
        events=("payment.captured", "payment.declined"),
        tables=(STOCK, RESERVATIONS),
        publishes=("stock.reserved", "stock.refused"),
    ),
    Consumer(
        "payments",
        events=("stock.reserved",),
        tables=(PAYMENTS,),
        publishes=("payment.captured", "payment.declined"),
        batch_size=1,  # one charge an invocation
        max_receive_count=12,  # a provider may be down for hours
        effect_timeout_seconds=8,
        timeout_seconds=30,
        secrets=("stripe_key",),
        parameters=("payment_api",),
    ),
    Consumer(
        "notifications",
        events=("payment.captured", "payment.declined", "stock.refused"),
        tables=(NOTIFICATIONS,),
        batch_size=1,
        max_receive_count=12,
        effect_timeout_seconds=3,
        timeout_seconds=15,
        sends_email=True,
    ),
)
