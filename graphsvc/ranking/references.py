"""Which delivered units an output references: citations of their ids, and phrases that only they hold.

A missed reference costs a little learning; a wrong one teaches the predictor a falsehood. So whatever is in doubt does
not count: an id inside a longer token, an id that the output repeats out of a content together with the words around
it, a phrase that the model may have from the query or from another delivered unit, a phrase that many units hold.

Source: seed selection-budgeted-retrieval, Utility Feedback: Reference Detection; gate B8.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from graphsvc.domain.phrases import disjoint_phrases, normalise_phrase, ranked_phrases
from graphsvc.domain.terms import CJK_CHARACTERS
from graphsvc.ports import PhraseCounts

KEY_PHRASES_LOOKED_FOR = 3
KEY_PHRASES_NEEDED = 2
CANDIDATE_PHRASES = 6
"""Of these the rarest are looked for: more would trade names that are likely to be repeated for odd pairs of words."""
MAX_COMMON_SHARE = 0.05
"""A phrase that a larger share of the visible units hold says little about any of them."""
MIN_HOLDERS = 2
"""So many units may hold a phrase however few there are: a passage and the file it was cut from."""
COUNT_LIMIT = 200
"""Units are counted up to this: phrases of more than 10 units never count."""

_EXAMINED_PHRASES = 200
"""Of a content: keeps the work linear in the number of units."""
_QUOTED_WORDS = 3
"""Words beside an id that an output and a content must share for the id to be part of a quotation."""
_CONTEXT_CHARACTERS = 200
"""Beside an id: where the nearest words are looked for."""

_UNIT_ID = re.compile(r"[a-z2-7]{12}")
_TO_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_JOINERS = frozenset("-./@#+\u2010\u2011")
"""Between two words they make one token: a path, an address, a compound."""
_MAX_EMPHASIS = 3
_IS_CJK = re.compile(f"[{CJK_CHARACTERS}]")
_WORD = re.compile(rf"[{CJK_CHARACTERS}]|[^\W_]+")
_ENVELOPE_WORDS = frozenset({"retrieved", "id"})
"""Words of a citation line: no surroundings."""

_Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitText:
    """A delivered unit and its content."""

    unit_id: str
    content: str


@dataclass(frozen=True, slots=True)
class PhraseCandidate:
    """A phrase that only one of the delivered units holds, normalised, and whether the output holds it."""

    phrase: str
    stands_in_output: bool


@dataclass(frozen=True, slots=True)
class Traces:
    """What an output shows of delivered units before it is known how common their phrases are.

    Attributes:
        cited: ids that the output cites.
        phrases: by unit_id, the most distinctive first; only of units of which the output holds two or more.
    """

    cited: frozenset[str]
    phrases: Mapping[str, tuple[PhraseCandidate, ...]]

    @property
    def counted_phrases(self) -> tuple[str, ...]:
        """The phrases whose holders decide, sorted."""
        return tuple(sorted({one.phrase for some in self.phrases.values() for one in some}))


def find_traces(output: str, query_text: str, units: Sequence[UnitText]) -> Traces:
    """Citations and candidate phrases of the delivered units in an output.

    Args:
        output: the model's text, up to 1 MiB.
        query_text: of the retrieval.
        units: every delivered unit.
    """
    return Traces(cited_units(output, units), _candidate_phrases(output, query_text, units))


def cited_units(output: str, units: Sequence[UnitText]) -> frozenset[str]:
    """Ids of delivered units that the output cites, in whatever brackets, quotes or lists.

    An id is random enough (60 bits) that standing as a token of its own is a citation. It is written in lower case and
    read in either: no two ids differ in case only. An id does not count where it stands inside a longer token, or where
    the output repeats a delivered content that holds it: the same words beside it, three or as many as there are.
    """
    lowered = _lowered(output)
    cited: set[str] = set()
    ids = {unit.unit_id for unit in units if _UNIT_ID.fullmatch(unit.unit_id)}
    contents: list[str] | None = None
    for unit_id in ids:
        places = list(_token_places(lowered, unit_id))
        if not places:
            continue
        if contents is None:
            contents = [_lowered(unit.content) for unit in units]
        quotable = {
            key
            for content in contents
            for place in _token_places(content, unit_id)
            for key in _quotation_keys(*_surroundings(content, place, ids))
        }
        if any(quotable.isdisjoint(_every_key(*_surroundings(lowered, place, ids))) for place in places):
            cited.add(unit_id)
    return frozenset(cited)


def phrases_found(candidates: Sequence[PhraseCandidate], counts: PhraseCounts) -> tuple[str, ...]:
    """The phrases that prove a reference: at least two of the three rarest; empty when there are fewer.

    Args:
        candidates: of one unit, the most distinctive first.
        counts: how many visible units hold them.
    """
    most = max(MIN_HOLDERS, MAX_COMMON_SHARE * min(counts.unit_count, COUNT_LIMIT))
    # The index knows a content's beginning only: what it does not find is held by one unit at least.
    holders = {one.phrase: max(1, counts.holders.get(one.phrase, 0)) for one in candidates}
    distinctive = [one for one in candidates if holders[one.phrase] <= most]
    looked_for = sorted(distinctive, key=lambda one: holders[one.phrase])[:KEY_PHRASES_LOOKED_FOR]
    found = tuple(one.phrase for one in looked_for if one.stands_in_output)
    return found if len(found) >= KEY_PHRASES_NEEDED else ()


def _candidate_phrases(
    output: str, query_text: str, units: Sequence[UnitText]
) -> dict[str, tuple[PhraseCandidate, ...]]:
    said = normalise_phrase(output)
    asked = normalise_phrase(query_text)
    asked_words = set(_WORD.findall(asked))
    ids = {unit.unit_id for unit in units}
    contents: list[str] = []
    looked_up: dict[str, bool] = {}
    found: dict[str, tuple[PhraseCandidate, ...]] = {}
    for place, unit in enumerate(units):
        ranked = list(islice(ranked_phrases(unit.content), _EXAMINED_PHRASES))
        looked_up.update((phrase, _stands_in(phrase, said)) for phrase in ranked if phrase not in looked_up)
        spoken = {phrase for phrase in ranked if looked_up[phrase]}
        if len(spoken) < KEY_PHRASES_NEEDED:
            continue
        contents = contents or [normalise_phrase(unit.content) for unit in units]
        own = (
            phrase
            for phrase in ranked
            if phrase not in asked
            and not asked_words.issuperset(_WORD.findall(phrase))
            and not any(one in phrase for one in ids)
            and not any(phrase in content for other, content in enumerate(contents) if other != place)
        )
        chosen = disjoint_phrases(own, CANDIDATE_PHRASES)
        if sum(phrase in spoken for phrase in chosen) >= KEY_PHRASES_NEEDED:
            found[unit.unit_id] = tuple(PhraseCandidate(phrase, phrase in spoken) for phrase in chosen)
    return found


# ---- tokens and words -----------------------------------------------------------------------------------------------


def _lowered(text: str) -> str:
    """The text with ASCII letters in lower case, nothing else changed: ids are ASCII, and places stay."""
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)


def _places(word: str, text: str) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        yield start
        start = text.find(word, start + 1)


def _token_places(text: str, unit_id: str) -> Iterator[int]:
    """Where an id stands as a token of its own."""
    for start in _places(unit_id, text):
        end = start + len(unit_id)
        emphasis = 0
        while (
            emphasis < _MAX_EMPHASIS
            and text[start - emphasis - 1 : start - emphasis] == "_" == text[end + emphasis : end + emphasis + 1]
        ):
            emphasis += 1
        if _ends_token(text, start - emphasis - 1, -1) and _ends_token(text, end + emphasis, 1):
            yield start


def _ends_token(text: str, at: int, step: int) -> bool:
    """Whether a token ends before the character at this place, seen in the direction of the step."""
    at = _past_invisible(text, at, step)
    if not 0 <= at < len(text):
        return True
    if _continues_word(text[at]):
        return bool(_IS_CJK.match(text[at]))  # Chinese and Japanese put no space between
    if text[at] not in _JOINERS:
        return True
    at = _past_invisible(text, at + step, step)
    return not (0 <= at < len(text) and _continues_word(text[at]))


def _past_invisible(text: str, at: int, step: int) -> int:
    while 0 <= at < len(text) and unicodedata.category(text[at]) == "Cf":
        at += step
    return at


def _continues_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _stands_in(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text, no letter or digit going on from it; between CJK characters nothing can."""

    def parts(inner: str, at: int) -> bool:
        if not 0 <= at < len(text) or not _continues_word(text[at]):
            return True
        return bool(_IS_CJK.match(inner) or _IS_CJK.match(text[at]))

    return any(
        parts(phrase[0], start - 1) and parts(phrase[-1], start + len(phrase)) for start in _places(phrase, text)
    )


# ---- quotations -----------------------------------------------------------------------------------------------------


def _surroundings(text: str, start: int, ids: set[str]) -> tuple[_Words, _Words]:
    """Up to three words before and after the id at this place, the nearest first; other citations are no words."""
    end = start + 12
    before = reversed(_words_of(text[max(0, start - _CONTEXT_CHARACTERS) : start], ids))
    after = _words_of(text[end : end + _CONTEXT_CHARACTERS], ids)
    return tuple(islice(before, _QUOTED_WORDS)), tuple(after[:_QUOTED_WORDS])


def _words_of(text: str, ids: set[str]) -> list[str]:
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word for word in words if word not in _ENVELOPE_WORDS and word not in ids]


def _quotation_keys(before: _Words, after: _Words) -> Iterator[tuple[_Words, _Words]]:
    """What beside an id in an output is enough to say that it repeats this content."""
    needed = min(_QUOTED_WORDS, len(before) + len(after))
    for count in range(needed + 1):
        if needed and count <= len(before) and needed - count <= len(after):
            yield before[:count], after[: needed - count]


def _every_key(before: _Words, after: _Words) -> set[tuple[_Words, _Words]]:
    return {(before[:left], after[:right]) for left in range(len(before) + 1) for right in range(len(after) + 1)}
