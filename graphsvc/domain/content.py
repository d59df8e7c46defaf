"""Content rules: what a writer may send, checked at the edge, and how anything else is made sendable.

Every refusal says what to send instead. Source: gate N3; seed neutral-selection-layer, Model-Agnostic Context Format;
known_failures.md, Odd input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.units import MAX_CONTENT_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES

_FENCE_ADVICE = "put it in a Markdown code fence (```), or describe it in words"

_BINARY_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters that text never holds. Bell, backspace, tab, line ends, form feed and escape are left: terminal
output has them, and file(1) calls such files text."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line separators: a name has none, so that it fits on one line of a log or a citation."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")

# The HTML Living Standard's index of elements, with svg and math, and the obsolete ones that pages still have.
_HTML_ELEMENT_NAMES = """
a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink blockquote body br
button canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed
fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img
input ins kbd label legend li link main map mark marquee math menu meta meter nav nobr noembed noframes noscript
object ol optgroup option output p param picture plaintext pre progress q rb rp rt rtc ruby s samp script search
section select selectedcontent slot small source span strike strong style sub summary sup svg table tbody td template
textarea tfoot th thead time title tr track tt u ul var video wbr xmp
"""
_HTML_ELEMENTS = frozenset(_HTML_ELEMENT_NAMES.split())

_PREAMBLE = re.compile(r"(?:[\s\ufeff]+|<!--(?s:.*?)-->|<\?(?s:.*?)\?>)+")
"""What may stand before a page's first element: white space, comments, an XML declaration."""

_DOCTYPE = re.compile(r"<!doctype(?![\w-])", re.IGNORECASE)
_TAG_NAME = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)(?=[\s>]|/>|/?$)")
_MAX_TAG = 4096
_WHOLE_TAG = re.compile(
    r"""</?[A-Za-z][A-Za-z0-9]*(?:\s+[A-Za-z_:@#*.\[(][^\s"'=<>/]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*\s*/?>"""
)


def check_content(text: str, field: str) -> None:
    """Returns when the text may be a unit's content: plain text or Markdown, 1 byte to 1 MiB of UTF-8.

    Args:
        text: the content.
        field: path of the field in the request, for the error.

    Raises:
        InvalidArgument: CONTENT_INVALID; the message says what to send instead.
    """
    if not text.strip().strip("\ufeff"):
        raise _invalid(field, "content is empty: send at least one character that is not white space")
    _check_utf8(text, field)
    size = len(text.encode())
    if size > MAX_CONTENT_BYTES:
        raise InvalidArgument(
            ErrorReason.CONTENT_INVALID,
            f"{field}: content has {size} bytes, {MAX_CONTENT_BYTES} are allowed: split it into several units",
            field=field,
            limit=MAX_CONTENT_BYTES,
        )
    control = _BINARY_CONTROL.search(text)
    if control:
        raise _invalid(
            field,
            f"content is binary (control character U+{ord(control.group()):04X} at {control.start()}): "
            "send text; for images, audio and archives send a description and a reference",
        )
    if is_json_document(text):
        raise _invalid(field, f"content is a JSON document: {_FENCE_ADVICE}")
    if is_html(text):
        raise _invalid(field, f"content begins with HTML: {_FENCE_ADVICE}")


def is_json_document(text: str) -> bool:
    """Whether the text parses whole as a JSON object or array (a bare string or number is plain text)."""
    body = text.strip().strip("\ufeff").strip()
    if not body.startswith(("{", "[")) or body[-1:] not in ("}", "]"):
        return False
    try:
        # Numbers stay text: Python refuses to convert very long ones, and that would let such a document through.
        json.loads(body, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError:
        return False
    except RecursionError:
        return True  # nothing but a machine nests so deep
    return True


def is_html(text: str) -> bool:
    """Whether the text begins with a doctype or the tag of an HTML element, after white space and comments.

    Autolinks (``<https://...>``), custom or XML tags (``<my-tag>``, ``<Foo>``) and generic types (``<T>``, ``<P>(x)``)
    are none: the name must be an HTML element's and end where a tag's name ends. One letter alone is little evidence,
    so there the whole tag must stand, and in upper case its end tag too.
    """
    preamble = _PREAMBLE.match(text)
    start = preamble.end() if preamble else 0
    if _DOCTYPE.match(text, start):
        return True
    tag = _TAG_NAME.match(text, start)
    if not tag or tag.group(2).lower() not in _HTML_ELEMENTS:
        return False
    name = tag.group(2)
    if len(name) > 1:
        return True
    return bool(_WHOLE_TAG.match(text, start, start + _MAX_TAG)) and (name.islower() or f"</{name}>" in text)


def fence(text: str, language: str = "") -> str:
    """The text in a Markdown code fence that nothing inside it can close.

    Args:
        text: anything; it is not changed, but gets a last line end.
        language: info string such as "json"; characters that it cannot hold are dropped.
    """
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{ticks}{re.sub(r'[^A-Za-z0-9_+#.-]', '', language)[:40]}\n{text}{end}{ticks}\n"


def check_name(value: str, field: str, *, limit: int = MAX_NAME_BYTES, required: bool = True) -> str:
    """The name itself, when it may be one: UTF-8 of at most ``limit`` bytes on one line.

    Args:
        value: agent_id, session_id, unit_key, role, model and the like.
        field: path of the field in the request, for the error.
        limit: bytes of UTF-8 at most.
        required: whether it must not be empty.

    Raises:
        InvalidArgument: FIELD_REQUIRED, FIELD_TOO_LARGE, or FIELD_INVALID for a control character or a lone surrogate.
    """
    if required and not value.strip():
        raise InvalidArgument(ErrorReason.FIELD_REQUIRED, f"{field} is required", field=field)
    if _SURROGATE.search(value):
        raise InvalidArgument(ErrorReason.FIELD_INVALID, f"{field} is not valid UTF-8 (lone surrogate)", field=field)
    size = len(value.encode())
    if size > limit:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE, f"{field} has {size} bytes, {limit} are allowed", field=field, limit=limit
        )
    if _CONTROL.search(value):
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID,
            f"{field} holds a control character or line break: send one line of text",
            field=field,
        )
    return value


def check_path(value: str, field: str) -> str:
    """The path itself, when it may be one: one line, at most 1024 bytes of UTF-8; empty: none.

    Raises: as check_name.
    """
    return check_name(value, field, limit=MAX_PATH_BYTES, required=False)


def check_vector(values: Sequence[float] | NDArray[np.floating], dimensions: int, field: str) -> NDArray[np.float32]:
    """The vector at unit length, float32, read-only, of shape (dimensions,).

    Args:
        values: the vector as sent, of any length but zero.
        dimensions: what the vector index holds; 0: the service keeps no vectors.
        field: path of the field in the request, for the error.

    Raises:
        InvalidArgument: EMBEDDING_INVALID for another dimension, NaN, infinity or a zero vector.
    """
    if dimensions == 0:
        raise _bad_vector(field, "this service keeps no embeddings: leave the vector out")
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (dimensions,):
        raise _bad_vector(field, f"the vector has {vector.size} numbers, the index {dimensions}: send {dimensions}")
    if not np.isfinite(vector).all():
        raise _bad_vector(field, "the vector holds NaN or infinity: send finite numbers")
    largest = np.abs(vector).max()
    if largest == 0:
        raise _bad_vector(field, "the vector is zero, which has no direction: leave it out")
    # Divided by the largest first: squares of very large or very small numbers would overflow or vanish.
    vector = vector / largest
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    unit.flags.writeable = False
    return unit


def _check_utf8(text: str, field: str) -> None:
    surrogate = _SURROGATE.search(text)
    if surrogate:
        raise _invalid(
            field,
            f"content is not valid UTF-8 (lone surrogate at {surrogate.start()}): decode it with the right encoding",
        )


def _invalid(field: str, message: str) -> InvalidArgument:
    return InvalidArgument(ErrorReason.CONTENT_INVALID, f"{field}: {message}", field=field)


def _bad_vector(field: str, message: str) -> InvalidArgument:
    return InvalidArgument(ErrorReason.EMBEDDING_INVALID, f"{field}: {message}", field=field)
