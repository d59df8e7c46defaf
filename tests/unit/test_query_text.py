"""Words of texts, and the Lucene clause made of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.terms import MAX_SEARCH_TERMS_BYTES, fold, search_terms, words
from graphsvc.graph.query_text import MAX_TERMS, text_clause

CLAUSE = re.compile(r'excerpt:\((?P<terms>"[^"\\]+"(?: "[^"\\]+")*)\) search_terms:\((?P=terms)\)')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("get_user_name", ["get_user_name", "get", "user", "name", "getusername"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("src/auth/login.py", ["src/auth/login.py", "src", "auth", "login", "py"]),
        ("Café naïve", ["cafe", "naive"]),
        ("C++ and C#", ["cplusplus", "csharp"]),
        ("the of and", []),
        ("… --- !!", []),
        ("", []),
        ("検索", ["検索"]),
        ("検索機能を", ["検索", "索機", "機能", "能を"]),
        ("東京tower", ["東京", "tower"]),
        ("हिन्दी", ["हिन्दी"]),
        ("ＡＢＣ ﬁle", ["abc", "file"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_other_letters_keep_their_marks() -> None:
    assert fold("Йод が") == "йод が"


@pytest.mark.parametrize(
    "text", ['a" OR scope_terms:x', "+tenant:foo", "scope_terms:t0", "x\\", 'x"^9', "a~ b* [c TO d] {e} /f/"]
)
def test_syntax_is_no_syntax(text: str) -> None:
    clause = text_clause(text)
    assert clause is not None
    assert CLAUSE.fullmatch(clause)


@given(st.text(max_size=300))
def test_a_clause_is_quoted_words_or_nothing(text: str) -> None:
    clause = text_clause(text)
    if clause is None:
        assert words(text) == []
        return
    found = CLAUSE.fullmatch(clause)
    assert found is not None
    assert found["terms"].count('" "') < MAX_TERMS


def test_many_words_keep_the_longest() -> None:
    clause = text_clause(" ".join(["ab"] + ["w" + "x" * n for n in range(3, 90)]))
    assert clause is not None
    assert '"ab"' not in clause
    assert clause.count('"') == 4 * MAX_TERMS


def test_search_terms_add_what_the_excerpt_lacks() -> None:
    assert search_terms("def getUserName(café):", "src/app.py").split() == [
        "src/app.py", "src", "app", "py", "get", "user", "name", "cafe",
    ]  # fmt: skip


@given(st.text(max_size=400), st.integers(0, 200))
def test_search_terms_are_bounded(text: str, limit: int) -> None:
    assert len(search_terms(text, text, limit=limit).encode()) <= limit
    assert len(search_terms(text * 50).encode()) <= MAX_SEARCH_TERMS_BYTES
