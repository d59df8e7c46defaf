"""Content rules (gate N3), names, paths, vectors."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsvc.domain.content import check_content, check_name, check_path, check_vector, fence
from graphsvc.domain.errors import ErrorReason, InvalidArgument

ACCEPTED = {
    "prose": "Login fails after the token refresh.",
    "markdown": "# Title\n\n- a\n- b\n",
    "one character": "x",
    "crlf": "a\r\nb",
    "terminal colours": "\x1b[31mFAILED\x1b[0m",
    "form feed": "page\x0cpage",
    "bom": "\ufefftext",
    "cjk": "令牌刷新",
    "emoji": "👩‍👩‍👧",
    "json string": '"hello"',
    "json number": "42",
    "json lines": '{"a": 1}\n{"b": 2}',
    "text around json": 'The body was {"a": 1}.',
    "broken json": '{"a": 1',
    "python dict": "{'a': 1}",
    "markdown link": "[title](https://example.org)",
    "checkbox": "[x] done",
    "section of a configuration": "[tool.ruff]",
    "fenced json": '```json\n{"a": 1}\n```\n',
    "fenced html": "```html\n<!doctype html>\n```\n",
    "autolink": "<https://example.org> is the address",
    "mail autolink": "<a@example.org> wrote",
    "mailto autolink": "<mailto:a@example.org>",
    "custom element": "<my-element>x</my-element>",
    "custom element with an html prefix": "<p-card>x</p-card>",
    "xml": '<?xml version="1.0"?>\n<project><artifact/></project>',
    "xml name": "<dependency>x</dependency>",
    "component": "<Foo bar={1} />",
    "generic": "<T>(x: T) => x",
    "generic pair": "<K, V>",
    "generic named as an element": "<P>(x: P) => x",
    "generic with a bound": "<A extends object>(a: A) => a",
    "include": "<stdio.h> declares printf",
    "include named as an element": "<time.h> declares time",
    "p value": "<p 0.05 was the bound",
    "less than": "< 5 items",
    "arrow": "<- back",
    "comment, then text": "<!-- toc -->\n# Title",
    "unfinished comment": "<!-- note",
    "html later": "See:\n<div>x</div>",
    "cdata": "<![CDATA[x]]>",
    "element declaration": "<!ELEMENT note (to)>",
    "doctype in words": "<!doctypes are odd",
    "namespaced": "<h:table>",
    "longer name": "<divider>",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_N3_text_and_markdown_are_accepted(text: str) -> None:
    check_content(text, "content")


REFUSED = {
    "empty": ("", "empty"),
    "white space": (" \n\t\u3000", "empty"),
    "bom alone": ("\ufeff", "empty"),
    "nul": ("a\x00b", "U+0000"),
    "png": ("\x89PNG\r\n\x1a\n", "binary"),
    "control character": ("a\x01", "binary"),
    "delete": ("a\x7f", "binary"),
    "lone surrogate": ("a\ud800", "surrogate"),
    "json object": ('{"a": 1}', "JSON"),
    "json array": (' [1, "a"]\n', "JSON"),
    "empty object": ("{}", "JSON"),
    "bom and json": ("\ufeff{}", "JSON"),
    "json with a huge number": ("[" + "9" * 5000 + "]", "JSON"),
    "json with infinity": ("[Infinity, NaN, 1e999]", "JSON"),
    "deep json": ("[" * 100_000 + "]" * 100_000, "JSON"),
    "doctype": ("<!DOCTYPE html><html></html>", "HTML"),
    "doctype in lower case": ("\n  <!doctype html>", "HTML"),
    "html": ("<html>", "HTML"),
    "upper case": ("<HTML><BODY>", "HTML"),
    "bom and html": ("\ufeff<html>", "HTML"),
    "comment and html": ("<!-- a --><!-- b\n -->\n<div>x</div>", "HTML"),
    "xhtml": ('<?xml version="1.0"?>\n<html xmlns="x">', "HTML"),
    "attributes": ('<p align="center">x</p>', "HTML"),
    "attribute with an angle": ('<div title="a > b">', "HTML"),
    "line break in the tag": ("<div\n  class=x>", "HTML"),
    "self closing": ("<br/>", "HTML"),
    "self closing with a space": ("<img src=x />", "HTML"),
    "end tag": ("</div>\n", "HTML"),
    "one letter": ("<p>x", "HTML"),
    "one letter with attributes": ('<a href="https://example.org">x</a>', "HTML"),
    "one letter in upper case": ("<P>Hello</P>", "HTML"),
    "template attribute": ('<div @click="x">', "HTML"),
    "cut off in the tag": ("<div", "HTML"),
    "svg": ('<svg viewBox="0 0 1 1">', "HTML"),
    "script": ("<script>1</script>", "HTML"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_N3_what_is_no_text_is_refused_with_advice(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_content(text, "units[3].content")
    assert caught.value.reason is ErrorReason.CONTENT_INVALID
    assert says in caught.value.message
    assert caught.value.metadata["field"] == "units[3].content"
    assert any(word in caught.value.message for word in ("send", "put it", "split", "decode"))


def test_N3_size_is_counted_in_bytes() -> None:
    check_content("é" * 2**19, "content")
    with pytest.raises(InvalidArgument, match="split"):
        check_content("é" * 2**19 + "a", "content")


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 2**18,
        "<!-- -->" * 2**17,
        " " * (2**20 - 1) + "x",
        "[" * 2**20,
        "{" * 2**19 + "}" * 2**19,
        "<p " + "a " * 2**18,
    ],
    ids=["comments", "whole comments", "spaces", "brackets", "braces", "attributes"],
)
def test_a_mebibyte_of_anything_is_checked_in_bounded_time(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(InvalidArgument):
        check_content(text, "content")
    assert time.process_time() - started < 5


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip))
def test_a_fence_makes_any_text_content_and_keeps_it_whole(text: str) -> None:
    fenced = fence(text, "json")
    check_content(fenced, "content")
    first, _, rest = fenced.partition("\n")
    ticks = first.removesuffix("json")
    assert set(ticks) == {"`"}
    body, _, last = rest.removesuffix("\n").rpartition("\n")
    assert last == ticks
    assert body == text.removesuffix("\n")
    assert ticks not in text


def test_a_fence_is_longer_than_any_inside_and_has_a_clean_language() -> None:
    assert fence("a\n````\nb", "c++") == "`````c++\na\n````\nb\n`````\n"
    assert fence("x\n", "``` \n evil") == "```evil\nx\n```\n"


def test_names() -> None:
    assert check_name("agent-7", "agent_id") == "agent-7"
    assert check_name("é" * 128, "agent_id") == "é" * 128
    assert check_name("", "role", required=False) == ""
    for value, reason in {
        "": ErrorReason.FIELD_REQUIRED,
        "  ": ErrorReason.FIELD_REQUIRED,
        "é" * 129: ErrorReason.FIELD_TOO_LARGE,
        "a\nb": ErrorReason.FIELD_INVALID,
        "a\x1fb": ErrorReason.FIELD_INVALID,
        "a\x00": ErrorReason.FIELD_INVALID,
        "a\u2028b": ErrorReason.FIELD_INVALID,
        "a\x85b": ErrorReason.FIELD_INVALID,
        "\udc80": ErrorReason.FIELD_INVALID,
    }.items():
        with pytest.raises(InvalidArgument) as caught:
            check_name(value, "agent_id")
        assert caught.value.reason is reason
        assert caught.value.metadata["field"] == "agent_id"


def test_paths() -> None:
    assert check_path("", "path") == ""
    assert check_path("a" * 1024, "path") == "a" * 1024
    with pytest.raises(InvalidArgument) as caught:
        check_path("a" * 1025, "path")
    assert caught.value.reason is ErrorReason.FIELD_TOO_LARGE


@pytest.mark.parametrize(
    "values",
    [[1.0], [1.0] * 4, [], [0.0] * 3, [float("nan"), 1, 1], [float("inf"), 1, 1], [-0.0] * 3],
    ids=["short", "long", "none", "zero", "nan", "infinity", "negative zero"],
)
def test_vectors_that_cannot_be_searched_are_refused(values: list[float]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_vector(values, 3, "embedding")
    assert caught.value.reason is ErrorReason.EMBEDDING_INVALID


def test_a_vector_is_refused_where_there_are_no_embeddings() -> None:
    with pytest.raises(InvalidArgument, match="leave the vector out"):
        check_vector([1.0], 0, "embedding")


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3).filter(
        lambda values: any(value != 0 for value in values)
    )
)
def test_vectors_come_out_at_unit_length(values: list[float]) -> None:
    vector = check_vector(values, 3, "embedding")
    assert vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector.astype(np.float64))) - 1) < 1e-6
