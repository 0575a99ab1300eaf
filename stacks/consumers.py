"""The registry. One line here and one folder in `functions/` make a consumer."""

from stacks.registry import Consumer, Table

ORDERS = Table("orders", "order_id")
CUSTOMERS = Table("customers", "customer_id")
STOCK = Table("stock", "sku")
RESERVATIONS = Table("reservations", "order_id")

CONSUMERS = (
    Consumer("orders", events=("order.placed",), tables=(ORDERS, CUSTOMERS)),
    Consumer("inventory", events=("order.placed",), tables=(STOCK, RESERVATIONS)),
)
