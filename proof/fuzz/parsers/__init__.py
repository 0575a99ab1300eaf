"""The parsers under test, each with its properties and the errors that it may raise."""

from proof.fuzz.parsers import batch, bodies, commit, identity, intake, stream

PARSERS = (
    *bodies.TARGETS,
    *intake.TARGETS,
    *identity.TARGETS,
    *commit.TARGETS,
    *stream.TARGETS,
    *batch.TARGETS,
)
