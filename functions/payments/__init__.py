"""Charges cards."""
