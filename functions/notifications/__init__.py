"""Writes to customers."""
