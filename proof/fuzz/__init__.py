"""The fuzzers: a million bodies, keys, answers and records that somebody may send."""

from proof.fuzz.campaign import replay, run

__all__ = ["replay", "run"]
