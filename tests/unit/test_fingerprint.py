"""Query fingerprints: the same words are the same query."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.fingerprint import normalise_query, query_fingerprint


def test_the_same_words_have_one_fingerprint() -> None:
    assert (
        len(
            {
                query_fingerprint(q)
                for q in ("Why does login fail?", "  why\tDOES\nlogin  fail? ", "why does login fail?")
            }
        )
        == 1
    )
    assert query_fingerprint("ﬁle") == query_fingerprint("FILE")
    assert query_fingerprint("Straße") == query_fingerprint("STRASSE")
    assert query_fingerprint("e\u0301") == query_fingerprint("\u00c9")


def test_other_words_have_another() -> None:
    queries = ["a b", "ab", "b a", "a b?", "á b", "a-b"]
    assert len({query_fingerprint(q) for q in queries}) == len(queries)


def test_the_version_is_part_of_it() -> None:
    assert query_fingerprint("Hello  World") == hashlib.sha256(b"v1\x1fhello world").hexdigest()


def test_a_query_without_text_has_none() -> None:
    assert query_fingerprint(" \n\u3000") == ""


@given(st.text(st.characters(codec="utf-8")))
def test_normalising_again_changes_nothing(text: str) -> None:
    once = normalise_query(text)
    assert normalise_query(once) == once
