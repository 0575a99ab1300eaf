"""The value of `Idempotency-Key`: a String of structured fields (RFC 8941), or a bare UUID."""

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from once.commands.http_door import key_in
from once.commands.runner import MAX_KEY_BYTES
from tests.once.support import quick

ID = "8e03978e-40d5-43dd-bc93-6894a57f9324"
READ = {
    f'"{ID}"': ID,
    ID: ID,
    ID.upper(): ID.upper(),
    f"  {ID} ": ID,
    '  "a b" ': "a b",
    r'"a\"b\\c"': r'a"b\c',
    '"a";x': "a",
    '"a"; x=1;y=?0; z="q;\\"r";t=tok/en:x;b=:YQ==:;d=-1.5;*k=*': "a",
    '"' + "k" * MAX_KEY_BYTES + '"': "k" * MAX_KEY_BYTES,
}
MALFORMED = (
    *("", " ", '""', '"  "', "a", "1", "?1", ":YQ==:", '("a")', '"a" "b"', '"a", "b"', '"a","a"'),
    *('"a', 'a"', '"a"b', r'"a\c"', '"é"', '"a\tb"', '"a\n"', '"a\x7f"', "'a'", '"a";X=1', '"a";'),
    *('"a";x=', '"a" ;x', '"a";x=é', ID[:-1], f"{ID}0", f"{ID}, {ID}", f"{{{ID}}}", f"{ID};x=1"),
    '"' + "k" * (MAX_KEY_BYTES + 1) + '"',
)


@pytest.mark.parametrize(("header", "key"), READ.items())
def test_a_key_is_read(header: str, key: str) -> None:
    assert key_in(header) == key


@pytest.mark.parametrize("header", MALFORMED)
def test_a_malformed_key_is_refused(header: str) -> None:
    assert key_in(header) is None


@quick
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=MAX_KEY_BYTES))
def test_every_string_comes_back(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    assert key_in(f'"{escaped}"') == (text if text.strip() else None)


@quick
@given(st.uuids())
def test_every_uuid_is_the_same_key_with_quotes_and_without(uuid: UUID) -> None:
    assert key_in(str(uuid)) == key_in(f'"{uuid}"') == str(uuid)


@quick
@given(st.text())
@example('"a";' + ";" * 1000)
@example('"' + "\\" * 10_000)
@example('"a"' + ";a=" * 10_000)
def test_any_text_is_a_printable_key_or_malformed(text: str) -> None:
    key = key_in(text)
    assert key is None or (key.isascii() and key.isprintable() and 0 < len(key) <= MAX_KEY_BYTES)
