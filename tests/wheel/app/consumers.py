"""The consumers of the service. One line here and one folder in `functions/` make a consumer."""

from once.cdk import ConsumerProps, TableProps

CONSUMERS = (
    ConsumerProps("tickets", external=("seat.booked",), tables=(TableProps("seats", "show"),)),
)
