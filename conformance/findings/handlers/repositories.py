"""Repositories with more than one of the handlers, and the commits that were checked."""

SERVERLESS_PATTERNS = "aws-samples/serverless-patterns"
SERVERLESS_PATTERNS_COMMIT = "fb7b5d06c27d8abb1bd35e52ab7523acf4baab7b"
