"""Words of a text for full-text search: the same rules when a unit is written and when it is searched.

Analyzers neither split identifiers nor fold accents, and they cut Chinese and Japanese into single characters; this
does what they leave undone. Source: known_failures.md, Odd input.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

MAX_SEARCH_TERMS_BYTES = 4 * 2**10
MAX_TERM_CHARACTERS = 128
"""Longer words are no words: hashes, base64; Lucene cuts at 255."""
PHRASE_CHARACTERS = 3
"""A Chinese, Japanese or Korean run up to this long is one word; of a longer one each pair of characters is."""

# fmt: off
STOP_WORDS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not",
    "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will",
    "with",
))
# fmt: on
"""Lucene's English stop words: both analyzers drop them, so that a search for nothing else finds nothing."""

_SPOKEN = {"c++": "cplusplus", "c#": "csharp", "f#": "fsharp"}


def _marks() -> str:
    """Combining marks of the basic plane as ranges of a character class: parts of words that are not in its class w."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0xFFFF):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in ranges)


_MARKS = _marks()
_WORD = rf"[\w{_MARKS}]+"
_TOKEN = re.compile(rf"(?<!\w)(?:[cC]\+\+|[cCfF]#)(?!\w)|{_WORD}(?:[-./:]{_WORD})*")
_PIECE = re.compile(r"[^./:]+")
_RUN_OF_LETTERS = re.compile(rf"\d+|(?:[^\W\d_]|[{_MARKS}])+")
CJK_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff々〆"
"""Chinese, Japanese and Korean characters, for a character class."""
_RUN = re.compile(f"[{CJK_CHARACTERS}]+|[^{CJK_CHARACTERS}]+")
_IS_CJK = re.compile(f"[{CJK_CHARACTERS}]")


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    # Latin and Greek only: elsewhere a mark makes another letter (й, が).
    return parts[0] if len(parts) > 1 and parts[0] < "\u0400" else character


def fold(text: str) -> str:
    """The text with compatibility forms resolved, in lower case, Latin and Greek letters without accents."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return plain if plain.isascii() else "".join(map(_fold_character, unicodedata.normalize("NFC", plain)))


def _humps(word: str) -> Iterator[str]:
    """Parts of ``getHTTPServer2`` in order: get, HTTP, Server, 2."""
    for run in _RUN_OF_LETTERS.findall(word):
        start = 0
        for at in range(1, len(run)):
            rises = run[at].isupper() and not run[at - 1].isupper()
            ends_acronym = run[at - 1].isupper() and run[at].isupper() and run[at + 1 : at + 2].islower()
            if rises or ends_acronym:
                yield run[start:at]
                start = at
        yield run[start:]


def _words_of(token: str) -> tuple[str, ...]:
    """The distinct words that a token stands for, stop words and overlong ones left out."""
    found = dict.fromkeys(_forms_of(token))
    return tuple(word for word in found if word and len(word) <= MAX_TERM_CHARACTERS and word not in STOP_WORDS)


_remembered_words_of = lru_cache(maxsize=4096)(_words_of)
"""Few tokens make most texts."""


def _forms_of(token: str) -> Iterator[str]:
    """What a token stands for, folded: itself, its parts, and the parts of a name joined."""
    if spoken := _SPOKEN.get(token.lower()):
        yield spoken
        return
    runs = _RUN.findall(token)
    if _IS_CJK.search(token):
        for run in runs:
            if _IS_CJK.match(run):
                folded = fold(run)
                if len(folded) <= PHRASE_CHARACTERS:
                    yield folded
                else:
                    yield from (folded[at : at + 2] for at in range(len(folded) - 1))
            elif run.strip("-_./:"):
                yield from _forms_of(run.strip("-_./:"))
        return
    whole = fold(token.strip("_"))
    yield whole
    for piece in _PIECE.findall(token):
        parts = [fold(hump) for hump in _humps(piece)]
        yield from parts
        yield "".join(parts)


def words(text: str) -> list[str]:
    """The distinct words of a text in order of appearance, stop words and overlong ones left out.

    Identifiers stand whole, in parts (at case, digits, ``_ - . / :``) and with the parts joined, so that
    ``getUserName``, ``get_user_name`` and ``user name`` meet. A long run of Chinese, Japanese or Korean gives
    its pairs of characters.
    """
    return list(dict.fromkeys(word_occurrences(text)))


def word_occurrences(text: str) -> Iterator[str]:
    """Every occurrence of the words of a text, in order; an identifier gives each of its forms once."""
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text)):
        yield from _remembered_words_of(token) if len(token) <= MAX_TERM_CHARACTERS else _words_of(token)


_FUNCTION_WORD_LIST = """
a about after all am an and any are as at be been before being but by can could did do does during for from had has have
he her hers him his how i if in into is it its me mine my no not of on or our ours she should so some such than that the
their them then there these they this those to us was we were what when where which while who whom whose why will with
would you your yours s t
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())


def query_words(text: str) -> list[str]:
    """The distinct words of a query that say what it is about: function words are left out, unless there are no others.

    A question's "what did he do when" is in every other text of a conversation and finds them all.
    """
    found = words(text)
    return [word for word in found if word not in _FUNCTION_WORDS] or found


def search_terms(excerpt: str, path: str = "", *more: str, limit: int = MAX_SEARCH_TERMS_BYTES) -> str:
    """The words that full-text search needs beside the excerpt itself, separated by spaces.

    Args:
        excerpt: the unit's excerpt, which is indexed as it is.
        path: the unit's path; its words come first.
        more: other names the unit should be found by, such as its tool's name or key phrases.
        limit: bytes of UTF-8 at most; what comes later is left out.

    Returns:
        Words of ``path`` and ``more``, then those of the excerpt that are no word of it as it stands: parts of
        identifiers, and words with accents or compatibility forms folded.
    """
    standing = {word.lower() for word in re.findall(_WORD, excerpt)}
    terms: dict[str, None] = dict.fromkeys(word for text in (path, *more) for word in words(text))
    terms.update(dict.fromkeys(word for word in words(excerpt) if word not in standing and not _IS_CJK.search(word)))
    kept: list[str] = []
    size = 0
    for term in terms:
        size += len(term.encode()) + 1
        if size > limit:
            break
        kept.append(term)
    return " ".join(kept)
