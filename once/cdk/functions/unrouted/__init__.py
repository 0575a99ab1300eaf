"""Keeps events that no consumer subscribes to."""
