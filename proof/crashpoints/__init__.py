"""Crash points: every fault at every call of the real code, alone and in pairs."""
