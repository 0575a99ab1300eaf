"""Fuzzing: a million bodies, keys, answers and records for everything that parses them."""

from proof.fuzz.command import replay, run

__all__ = ["replay", "run"]
