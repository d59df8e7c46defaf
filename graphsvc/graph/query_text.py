"""A user's query as a Lucene clause that no text can break out of.

Source: known_failures.md, Odd input (Lucene syntax in a query raises, or empties the result).
"""

from __future__ import annotations

from graphsvc.domain.terms import words

MAX_TERMS = 64
"""Lucene takes 1,024 clauses in all; each term is two, and the scopes need the rest."""


def text_clause(text: str) -> str | None:
    """The clause that finds any of the text's words in excerpts and search terms; None when there is no usable word.

    Every word consists of letters, digits, marks and ``_ - . / :``, in lower case, and stands in quotes: nothing in it
    is syntax, AND and OR are words, and a field or a scope cannot be named. Longer words come first where there are
    more than :data:`MAX_TERMS`: they are rarer.
    """
    found = words(text)
    if not found:
        return None
    quoted = " ".join(f'"{word}"' for word in sorted(found, key=len, reverse=True)[:MAX_TERMS])
    return f"excerpt:({quoted}) search_terms:({quoted})"
