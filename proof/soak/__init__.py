"""Soak: the deployed service for minutes, while processes are killed and answers are lost."""

from proof.soak.main import run

__all__ = ["run"]
