"""Proofs: exploration, simulator, crash points, fuzzing and mutation testing."""
