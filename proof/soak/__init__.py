"""The soak: the deployed service for minutes on end, while processes die and answers are lost."""

from proof.soak.main import run

__all__ = ["run"]
