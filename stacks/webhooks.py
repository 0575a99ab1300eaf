"""The endpoints of webhooks. One line here and one in the provider's settings make an endpoint."""

from once.cdk import STRIPE, Endpoint, WebhookProps

WEBHOOKS = WebhookProps(
    endpoints=(Endpoint("stripe", STRIPE, types=("charge.refunded", "payment_intent.succeeded")),),
    aws_services=(),
)
