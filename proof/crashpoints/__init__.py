"""Every call of the real code, met by every kind of fault: alone, and two at a time."""

from proof.crashpoints.campaign import run

__all__ = ["run"]
