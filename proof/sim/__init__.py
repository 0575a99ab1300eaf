"""Seeded runs of the unmodified handlers, and what becomes of a seed that breaks a promise."""
