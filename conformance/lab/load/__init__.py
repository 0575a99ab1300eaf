"""Approaches under load on the embedded AWS."""
