"""Key phrases of a content: what a text that used it is likely to repeat.

Three are kept with the unit when it is written; ``ranking.references`` takes them from the content anew when it looks
for them in a model's output (gate B8), since only then is it known what else holds them. No corpus is at hand to weigh
words by, so the shape of a word stands for its rarity: an identifier is rarer than two words side by side, two words
are rarer than one.
Source: seed selection-budgeted-retrieval, detect_reference, Method 2.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

MAX_KEY_PHRASES = 3
_MAX_SCANNED = 65_536
"""Characters that are read: what a unit is about stands near its start."""
_MAX_PHRASE = 60
"""Characters: longer ones are hashes, data or addresses that nobody repeats."""

_WORD = re.compile(r"[^\W_]+(?:[_./:-]+[^\W_]+)*")
_PHRASE_END = re.compile(r"[\n\r;!?()\[\]{}|\"]|[.:](?!\w)")
"""Between phrases. A dot or colon inside a word holds it together (module.name, host:port)."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2,}")
_CJK_PHRASE = 4
_CITATION = re.compile(r"\[retrieved id=[^\]]*\]")

_STOP_WORD_LIST = """
a about above after again against all also am an and any are as at be because been before being below between both but
by can could did do does doing done down during each either else even ever every few for from further get gets got had
has have having he her here hers him his how however i if in into is it its itself just like made make makes many may
me might more most much must my need needs new no nor not now of off on once one only or other our out over own per
same say says see set she should since so some still such take than that the their them then there these they this
those through to too two under until up upon us use used uses using very via want was we were what when where which
while who whom why will with within without would yes yet you your class const def else elif enum false final func
function import interface let none null package private protected public return self static string struct true type
value values var void bool int float str list dict
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())

_IDENTIFIER_SCORE = 4.0
_PAIR_SCORE = 2.0
_WORD_SCORE = 1.0
_MAX_FREQUENCY_SCORE = 1.5
"""What being frequent adds at most: less than the step between two shapes."""


def normalise_phrase(text: str) -> str:
    """The text in NFKC, case-folded, white space collapsed: the form in which phrases are kept and looked for."""
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split())


def key_phrases(content: str) -> tuple[str, ...]:
    """Up to three phrases, the most distinctive first, normalised; the same for the same content.

    Of equally distinctive ones the more frequent, then the longer, then the earlier wins; no two share a word.
    """
    return disjoint_phrases(ranked_phrases(content), MAX_KEY_PHRASES)


def ranked_phrases(content: str) -> list[str]:
    """Every phrase of the content, the most distinctive first, normalised; they may share words."""
    text = _CITATION.sub(" ", content[:_MAX_SCANNED])
    counts: Counter[str] = Counter()
    scores: dict[str, float] = {}
    for phrase, score in _candidates(text):
        key = normalise_phrase(phrase)
        if 3 < len(key) <= _MAX_PHRASE or (len(key) > 1 and _CJK.fullmatch(key)):
            counts[key] += 1
            scores.setdefault(key, score)
    order = {key: position for position, key in enumerate(scores)}
    return sorted(
        scores,
        key=lambda key: (
            -(scores[key] + min(math.log2(counts[key]), _MAX_FREQUENCY_SCORE) + min(len(key), 24) / 24),
            order[key],
        ),
    )


def disjoint_phrases(ranked: Iterable[str], limit: int) -> tuple[str, ...]:
    """The first phrases of which no two share a word, at most ``limit``: finding two of them is no echo of one."""
    chosen: list[str] = []
    taken: set[str] = set()
    for phrase in ranked:
        words = set(phrase.split())
        if words & taken or any(phrase in other or other in phrase for other in chosen):
            continue
        chosen.append(phrase)
        taken |= words
        if len(chosen) == limit:
            break
    return tuple(chosen)


def _candidates(text: str) -> Iterator[tuple[str, float]]:
    """Every phrase of the text with the score of its shape, in order of appearance."""
    for part in _PHRASE_END.split(text):
        previous = ""
        for match in _WORD.finditer(part):
            word = match.group()
            if _CJK.search(word):
                previous = ""
                for run in _CJK.findall(word):
                    yield run[:_CJK_PHRASE], _PAIR_SCORE
                continue
            if len(word) > _MAX_PHRASE:
                previous = ""
                continue
            if _is_identifier(word):
                yield word, _IDENTIFIER_SCORE
                previous = ""
                continue
            if len(word) < 3 or word.casefold() in _STOP_WORDS or word.isdigit():
                previous = ""
                continue
            if len(word) >= 6:
                yield word, _WORD_SCORE
            if previous:
                yield f"{previous} {word}", _PAIR_SCORE
            previous = word


@lru_cache(maxsize=4096)
def _is_identifier(word: str) -> bool:
    if len(word) < 5 or not any(character.isalpha() for character in word):
        return False
    has_digit = any(character.isdigit() for character in word)
    return has_digit or any(mark in word for mark in "_./:") or bool(_CAMEL.search(word))
