"""The plain block: how a unit stands in a payload, so that its price is exact and nothing inside can pose as another.

A block is ``[retrieved id=ID]``, a line end, the content, a line end; a payload is blocks one after the other. Two
properties hold for every text, and the tests show them over arbitrary Unicode:

- *Additive*: the tokens of a payload are the sum of its blocks' tokens, and a block's are its header's plus its body's.
  In the patterns of cl100k_base and o200k_base no piece goes on from a line end into a character that is neither white
  space nor "/". Every header begins with "[" after a line end; every body begins with such a character, or with white
  space, which after "]" and a line end begins a piece of its own.
- *Closed*: no line of a content reads as a header.

Source: gates B1, B7; seed selection-budgeted-retrieval, Retrieve & Inject.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_LINE_END = re.compile(r"\r\n?")
_LEADING_BLANK_LINES = re.compile(r"\s*\n")
_LINE_SEPARATORS = frozenset("\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")

_HEADER_SHOWN = "[retrievedid="
"""What shows of the start of a header, case-folded: a model reads past case, width and what has no shape."""
_BRACKET = re.compile("[\\[\uff3b\ufe47]")
"""Every character that is "[" in NFKC."""
_SHAPELESS_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Me"})
_HANGUL_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
_EMPTY = "(empty)"


def render_header(unit_id: str) -> str:
    """The citation line of a unit, with its line end."""
    return f"[retrieved id={unit_id}]\n"


def render_content(content: str) -> str:
    r"""The content as it stands in a block, without the last line end; never empty.

    Line ends become ``\n``; blank lines at the start and white space at the end go; a backslash goes before what reads
    as a header; a space before a leading "/", which o200k_base would otherwise join to the header's line end.
    """
    text = _LINE_END.sub("\n", content).rstrip()
    blank = _LEADING_BLANK_LINES.match(text)
    text = _neutralise(text[blank.end() :] if blank else text)
    if text.startswith("/"):
        return f" {text}"
    return text or _EMPTY


def render_body(content: str) -> str:
    """What follows the header of a block. ``token_counts`` of a unit are the counts of this text."""
    return render_content(content) + "\n"


def render_block(unit_id: str, content: str) -> str:
    """A whole block."""
    return render_header(unit_id) + render_body(content)


def _neutralise(text: str) -> str:
    """The text with a backslash before each bracket that begins a line which reads as a header."""
    starts = [
        match.start()
        for match in _BRACKET.finditer(text)
        if _begins_line(text, match.start()) and _reads_as_header(text, match.start())
    ]
    edges = [0, *starts, len(text)]
    return "\\".join(text[start:end] for start, end in pairwise(edges))


# Both look only from brackets to the next thing that has a shape, which keeps rendering linear in the text.
def _begins_line(text: str, position: int) -> bool:
    while position > 0:
        position -= 1
        if text[position] in _LINE_SEPARATORS:
            return True
        if not _is_shapeless(text[position]):
            return False
    return True


def _reads_as_header(text: str, position: int) -> bool:
    shown = 0
    while position < len(text) and shown < len(_HEADER_SHOWN):
        character = text[position]
        position += 1
        if _is_shapeless(character):
            continue
        folded = unicodedata.normalize("NFKC", character).casefold()
        if not _HEADER_SHOWN.startswith(folded, shown):
            return False
        shown += len(folded)
    return shown == len(_HEADER_SHOWN)


def _is_shapeless(character: str) -> bool:
    return unicodedata.category(character) in _SHAPELESS_CATEGORIES or character in _HANGUL_FILLERS
