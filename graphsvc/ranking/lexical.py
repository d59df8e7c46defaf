"""BM25 over what the caller may see.

Lucene finds the units; its scores are not used, for they rest on statistics of the whole index: another tenant's writes
would move them. Here the statistics are those of the visible hits of the query.
Source: known_failures.md, Isolation; Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol, cast

import Stemmer

from graphsvc.domain.candidates import TermStatistics
from graphsvc.domain.terms import CJK_CHARACTERS, query_words, word_occurrences, words

K1 = 1.2
"""How soon further occurrences of a term add little."""
B = 0.75
"""How much longer texts are held back."""
MAX_STEMS = 500
"""Distinct stems kept of a unit; the most frequent, of an excerpt that rarely has more."""
UNSEEN_SHARE = 2.0
"""Visible units taken to exist for each hit: those that hold none of the query's terms are not counted by a search."""

_CJK_RUN = re.compile(f"[{CJK_CHARACTERS}]{{3,}}")
_TOTAL = "#"


class _Stemmer(Protocol):
    def stemWord(self, word: str, /) -> str: ...  # noqa: N802 - the library's name


class _Stemmers(threading.local):
    """A stemmer a thread: an instance is not for several. Porter's first, which Lucene's English analyzer uses."""

    def __init__(self) -> None:
        self.porter = cast("_Stemmer", Stemmer.Stemmer("porter"))  # pyright: ignore[reportUnknownMemberType]


_local = _Stemmers()


def _stems(found: Sequence[str]) -> list[str]:
    stems: list[str] = []
    stemmer = _local.porter
    for word in found:
        if _CJK_RUN.fullmatch(word):
            stems.extend(word[at : at + 2] for at in range(len(word) - 1))
        else:
            stems.append(stemmer.stemWord(word))
    return stems


def term_frequencies(excerpt: str, path: str = "") -> str:
    """How often each stem stands in a unit, ``" stem=count stem=count #=total "``: kept with it for its scoring."""
    counts = Counter(_stems([*word_occurrences(path), *word_occurrences(excerpt)]))
    kept = "".join(f" {stem}={count}" for stem, count in counts.most_common(MAX_STEMS))
    return f"{kept} {_TOTAL}={counts.total()} "


def term_statistics(query: str, documents: Sequence[str]) -> TermStatistics:
    """The weight of each stem of the query, rare ones more, and the average length, over the hits.

    Args:
        query: as the user wrote it.
        documents: what :func:`term_frequencies` gave for each hit.
    """
    average = sum(_count(document, _TOTAL) for document in documents) / max(1, len(documents))
    population = len(documents) * UNSEEN_SHARE
    weights: dict[str, float] = {}
    for stem in dict.fromkeys(_stems(query_words(query))):
        holding = sum(f" {stem}=" in document for document in documents)
        weights[stem] = math.log(1.0 + (population - holding + 0.5) / (holding + 0.5))
    return TermStatistics(MappingProxyType(weights), max(1.0, average))


def bm25(statistics: TermStatistics, documents: Sequence[str]) -> list[float]:
    """The score of each document, 0 or more, in order.

    Args:
        statistics: of the query.
        documents: what :func:`term_frequencies` gave for each.
    """
    scores: list[float] = []
    for document in documents:
        norm = K1 * (1.0 - B + B * _count(document, _TOTAL) / statistics.average_length)
        score = 0.0
        for stem, weight in statistics.weights.items():
            if count := _count(document, stem):
                score += weight * count * (K1 + 1.0) / (count + norm)
        scores.append(score)
    return scores


def term_coverage(statistics: TermStatistics, documents: Sequence[str]) -> list[float]:
    """The share of the query's terms, weighed by rarity, that each document holds, in [0, 1], in order."""
    total = sum(statistics.weights.values())
    return [
        sum(weight for stem, weight in statistics.weights.items() if f" {stem}=" in document) / total if total else 0.0
        for document in documents
    ]


def rarity(statistics: TermStatistics, name: str) -> float:
    """How rare a name's words are among the hits, in [0, 1]: 1 as rare as the rarest word of the query, or rarer.

    1 where nothing is known. Words that the query does not hold, and its function words, add nothing.
    """
    if not statistics.weights:
        return 1.0
    total = sum(statistics.weights.get(stem, 0.0) for stem in set(_stems(words(name))))
    return min(1.0, total / max(statistics.weights.values()))


def _count(document: str, stem: str) -> int:
    start = document.find(f" {stem}=")
    if start < 0:
        return 0
    start += len(stem) + 2
    return int(document[start : document.index(" ", start)])
