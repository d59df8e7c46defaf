"""Key phrases: few, distinctive, always the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.phrases import MAX_KEY_PHRASES, key_phrases, normalise_phrase


def test_identifiers_come_before_pairs_and_pairs_before_words() -> None:
    phrases = key_phrases(
        "The session cookie expires because auth.tokens.refresh_token() ignores the clock. Unbelievable!"
    )
    assert (
        phrases == ("auth.tokens.refresh_token", "session cookie", "unbelievable")
        or phrases[0] == "auth.tokens.refresh_token"
    )
    assert any(" " in phrase for phrase in phrases[1:])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Call parseHTTPHeader before anything else.", "parsehttpheader"),
        ("Set MAX_RETRY_COUNT first.", "max_retry_count"),
        ("See docs/setup/windows.md for it.", "docs/setup/windows.md"),
        ("Upgrade to numpy2 today.", "numpy2"),
        ("用户登录失败,因为令牌刷新后会话过期。", "用户登录"),
    ],
)
def test_what_is_distinctive(content: str, expected: str) -> None:
    assert expected in key_phrases(content)


def test_stop_words_and_trifles_are_no_phrases() -> None:
    assert key_phrases("It is what it is, and that was that.") == ()
    assert key_phrases("ok 12 34") == ()
    assert key_phrases("") == ()


def test_a_sentence_end_parts_words() -> None:
    assert "gamma delta" not in key_phrases("alphas gamma. delta betas")
    assert not any("gamma delta" in phrase for phrase in key_phrases("gamma. delta"))


def test_a_citation_line_gives_no_phrase() -> None:
    assert key_phrases("[retrieved id=abcdefgh2345]") == ()


@given(st.text(st.characters(codec="utf-8")))
def test_few_normalised_distinct_and_always_the_same(content: str) -> None:
    phrases = key_phrases(content)
    assert phrases == key_phrases(content)
    assert len(phrases) <= MAX_KEY_PHRASES
    assert len(set(phrases)) == len(phrases)
    for phrase in phrases:
        assert normalise_phrase(phrase) == phrase
        assert phrase in normalise_phrase(content) or " " in phrase


@pytest.mark.parametrize(
    "text", ["a" * 2**20, "ab-" * 2**18, "x." * 2**19, "ab cd " * 2**17, "中" * 2**18, "\n" * 2**20]
)
def test_a_mebibyte_of_anything_takes_bounded_time(text: str) -> None:
    started = time.process_time()
    key_phrases(text)
    assert time.process_time() - started < 5
