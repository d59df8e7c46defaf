"""A user's query as a Lucene clause that no text can break out of.

Source: known_failures.md, Odd input (Lucene syntax in a query raises, or empties the result).
"""

from __future__ import annotations

import re

from graphsvc.domain.terms import CJK_CHARACTERS, fold, query_words

MAX_TERMS = 64
"""Lucene takes 1,024 clauses in all; each term is two, and the scopes need the rest."""


def text_clause(text: str) -> str | None:
    """The clause that finds any of the text's words in excerpts and search terms; None when there is no usable word.

    Every word consists of letters, digits, marks and ``_ - . / :``, in lower case, and stands in quotes: nothing in it
    is syntax, AND and OR are words, and a field or a scope cannot be named. Longer words come first where there are
    more than :data:`MAX_TERMS`: they are rarer.
    """
    found = query_words(text)
    if not found:
        return None
    quoted = " ".join(f'"{word}"' for word in sorted(found, key=len, reverse=True)[:MAX_TERMS])
    return f"excerpt:({quoted}) search_terms:({quoted})"


_CJK_PHRASE = re.compile(f"[{CJK_CHARACTERS}]+")
_BETWEEN_PARTS = re.compile(r"[-_\s]+")


def phrase_clause(phrase: str) -> tuple[str, str]:
    """The full-text index in which a phrase is looked for and the clause that demands it there, words side by side.

    An identifier is found inside a dotted name too, by its joined form. A phrase without a word that is indexed is
    found everywhere.

    Args:
        phrase: normalised (``domain.phrases``).
    """
    if _CJK_PHRASE.fullmatch(phrase):
        return "unit_text_cjk", f"+excerpt:{_quoted(phrase)}"
    folded = fold(phrase)
    joined = _BETWEEN_PARTS.sub("", folded)
    return "unit_text_english", f"+(excerpt:{_quoted(phrase)} search_terms:({_quoted(folded)} {_quoted(joined)}))"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
