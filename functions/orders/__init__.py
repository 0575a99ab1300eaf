"""Stores orders."""
