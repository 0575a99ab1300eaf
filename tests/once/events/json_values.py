"""Hypothesis strategies for values that JSON can hold."""

from hypothesis import strategies as st

from once.events.strict_json import MAX_SAFE_INTEGER

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)
