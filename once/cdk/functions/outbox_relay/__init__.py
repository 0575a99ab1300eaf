"""Publishes outbox events."""
