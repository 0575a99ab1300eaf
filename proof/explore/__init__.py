"""Systematic exploration: every schedule of the real handlers within a bound, in small scopes."""
