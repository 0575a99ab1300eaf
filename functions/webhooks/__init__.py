"""The shop's webhooks: verified, captured, and handed on as events."""
