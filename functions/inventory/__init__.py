"""Reserves stock."""
