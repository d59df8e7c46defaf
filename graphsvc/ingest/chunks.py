"""Cuts a file's text into pieces that can be read alone, and outlines its definitions.

Python is cut by top-level definition, Markdown by heading, anything else by blank lines, at about 200 to 400 tokens.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TARGET_TOKENS = 300
"""A piece is closed once it has this many."""
MERGE_TOKENS = 120
"""Definitions smaller than this share a piece with their neighbours."""
TINY_TOKENS = 40
"""What is smaller goes with what follows, however large: a lone import line says nothing."""
MAX_TOKENS = 800
"""Longer definitions are cut at line ends."""
_CHARACTERS_PER_TOKEN = 3.5
"""Of source text in Latin letters, on the safe side; other scripts have about one token a character."""
MAX_OUTLINE = 40


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines ``start`` to ``end`` (from 1, both included) of a file.

    Attributes:
        name: of its main definition or heading; empty: none. Names the chunk across versions of the file.
        label: what it holds, for the header line.
    """

    start: int
    end: int
    name: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A top-level definition or heading."""

    line: int
    label: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines start to end (from 0, end excluded) that belong together."""

    start: int
    end: int
    name: str = ""
    label: str = ""
    breaks: bool = True
    """Whether a chunk may well end before it."""
    opens: bool = False
    """Whether it is the head of a class, which begins a chunk and takes the first method with it."""


LANGUAGES = {
    "py": "Python", "pyi": "Python", "md": "Markdown", "markdown": "Markdown", "rst": "reStructuredText", "txt": "text",
    "js": "JavaScript", "mjs": "JavaScript", "cjs": "JavaScript", "jsx": "JavaScript", "ts": "TypeScript",
    "tsx": "TypeScript", "mts": "TypeScript", "cts": "TypeScript", "vue": "Vue", "svelte": "Svelte", "go": "Go",
    "c": "C", "h": "C", "cc": "C++", "cpp": "C++", "cxx": "C++", "hpp": "C++", "hh": "C++", "hxx": "C++", "rs": "Rust",
    "java": "Java", "kt": "Kotlin", "swift": "Swift", "cs": "C#", "rb": "Ruby", "php": "PHP", "scala": "Scala",
    "proto": "Protocol Buffers", "cypher": "Cypher", "sql": "SQL", "sh": "Shell", "bash": "Shell", "yaml": "YAML",
    "yml": "YAML", "toml": "TOML", "ini": "INI", "cfg": "INI", "json": "JSON", "jsonl": "JSON", "ipynb": "JSON",
    "html": "HTML", "htm": "HTML", "xml": "XML", "svg": "SVG", "css": "CSS", "scss": "CSS", "lua": "Lua", "r": "R",
    "dart": "Dart", "tf": "Terraform", "mk": "Makefile",
}  # fmt: skip
FENCED_LANGUAGES = {"JSON": "json", "HTML": "html", "XML": "xml", "SVG": "xml", "Vue": "vue", "Svelte": "svelte"}
"""Languages whose text the content rules refuse bare, with their name on a Markdown fence."""
_PROSE = frozenset({"Markdown", "reStructuredText", "text"})

_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)")
_DEFINITIONS: dict[str, re.Pattern[str]] = {
    language: re.compile(pattern)
    for languages, pattern in (
        (("JavaScript", "TypeScript", "Vue", "Svelte"),
         r"^(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
         r"(?P<kind>function|class|interface|type|enum|namespace|const|let|var)\*?\s+(?P<name>[A-Za-z_$][\w$]*)"),
        (("Go",), r"^(?P<kind>func|type|var|const)\s+(?:\([^)]*\)\s*)?(?P<name>[A-Za-z_]\w*)"),
        (("Rust",), r"^(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|unsafe\s+|const\s+)*"
                    r"(?P<kind>fn|struct|enum|trait|impl|mod|type|macro_rules!)\s*(?:<[^>]*>\s*)?(?P<name>[A-Za-z_]\w*)"),
        (("Protocol Buffers",), r"^(?P<kind>message|service|enum|extend)\s+(?P<name>[\w.]+)"),
        (("Java", "Kotlin", "C#", "Scala", "Swift", "Dart", "PHP"),
         r"^(?:(?:public|private|protected|internal|final|abstract|static|sealed|data|open|partial|export|case)\s+)*"
         r"(?P<kind>class|interface|enum|record|object|struct|trait|protocol|extension|fun|func|function)\s+"
         r"(?P<name>[A-Za-z_]\w*)"),
        (("Ruby",), r"^(?P<kind>class|module|def)\s+(?P<name>[\w.:?!]+)"),
        (("C", "C++"), r"^(?:(?:typedef|static|inline|extern|constexpr|virtual)\s+)*"
                       r"(?:(?P<kind>struct|class|enum|union|namespace)\s+(?P<name>[A-Za-z_]\w*)"
                       r"|[A-Za-z_][\w:<>,*&\s]*?[\s*&](?P<function>[A-Za-z_][\w:~]*)\s*\([^;]*$)"),
        (("Shell",), r"^(?:(?P<kind>function)\s+)?(?P<name>[A-Za-z_][\w-]*)\s*\(\)"),
        (("SQL",), r"(?i)^create\s+(?:or\s+replace\s+)?(?P<kind>table|view|function|procedure|index|trigger)\s+"
                   r"(?:if\s+not\s+exists\s+)?(?P<name>[\w.\"`]+)"),
        (("Makefile",), r"^(?P<name>[A-Za-z][\w./-]*):(?!=)"),
        (("TOML", "INI"), r"^\[+(?P<name>[^\]]+)\]+"),
        (("Lua",), r"^(?:local\s+)?(?P<kind>function)\s+(?P<name>[\w.:]+)"),
    )
    for language in languages
}  # fmt: skip


def language_of(path: str) -> str:
    """The language's name by the file's name; empty: not known."""
    name = path.rsplit("/", 1)[-1].lower()
    if name in {"makefile", "gnumakefile"}:
        return "Makefile"
    if name.startswith("dockerfile"):
        return "Dockerfile"
    return LANGUAGES.get(name.rsplit(".", 1)[-1], "") if "." in name else ""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few: characters count, no tokenizer is loaded."""
    wide = sum(character > "\u02ff" for character in text) if not text.isascii() else 0
    return int((len(text) - wide) / _CHARACTERS_PER_TOKEN + wide * 1.1) + 1


def chunk_text(path: str, text: str) -> list[Chunk]:
    """The file's pieces in order; together they hold every line that is not blank, none cut inside a line."""
    lines = text.split("\n")
    language = language_of(path)
    pieces: Sequence[_Piece] | None = None
    if language == "Python":
        pieces = _python_pieces(text, lines)
    elif language == "Markdown":
        pieces = _markdown_pieces(lines)
    if pieces is None:
        pieces = _plain_pieces(lines, language)
    return [chunk for group in _grouped(pieces, lines) if (chunk := _chunk(group, lines)) is not None]


def outline(path: str, text: str) -> list[Definition]:
    """Top-level definitions (Markdown: headings), by line."""
    language = language_of(path)
    lines = text.split("\n")
    if language == "Python":
        module = _parse(text)
        if module is not None:
            return [
                Definition(node.lineno, f"{_keyword(node)} {node.name}")
                for node in module.body
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    if language == "Markdown":
        return [Definition(line + 1, f"{'#' * level} {title}") for line, level, title in _headings(lines)]
    return [
        Definition(line + 1, found[1])
        for line, content in enumerate(lines)
        if (found := _definition(content, language))
    ]


def summary_line(path: str, text: str) -> str:
    """The file's own first sentence: a docstring's, the first paragraph's or the leading comment's; may be empty."""
    language = language_of(path)
    if language == "Python":
        module = _parse(text)
        documentation = ast.get_docstring(module) if module is not None else None
        if documentation:
            return _shortened(documentation.strip().split("\n\n")[0])
    lines = text.split("\n")
    if language in _PROSE:
        fenced = _fenced(lines)
        for number, line in enumerate(lines):
            if line.strip() and not fenced[number] and not line.startswith(("#", "=", "-", "[", "!", "<", "|", ".. ")):
                return _shortened(line.strip())
        return ""
    for line in lines[:5]:
        stripped = line.strip()
        if stripped.startswith(("//", "#", "--", "/*", "*", ";")) and not stripped.startswith(("#!", "#include")):
            words = stripped.strip("/#-*; ")
            if len(words.split()) > 2:
                return _shortened(words)
    return ""


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 200 else one_line[:199].rsplit(" ", 1)[0] + "…"


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # Python 2, a template, or a file that is no Python at all: it is cut like plain text.
            return None


def _keyword(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "class" if isinstance(node, ast.ClassDef) else "def"


def _python_pieces(text: str, lines: Sequence[str]) -> list[_Piece] | None:
    module = _parse(text)
    if module is None:
        return None
    return list(_statement_pieces(module.body, lines, 0, len(lines), ""))


def _statement_pieces(
    body: Sequence[ast.stmt], lines: Sequence[str], start: int, end: int, owner: str
) -> Iterator[_Piece]:
    """Pieces of lines start to end, cut where definitions begin; large classes are cut into their methods."""
    begins: list[tuple[int, ast.stmt | None]] = []
    plain = False
    for node in body:
        defined = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if defined or not plain:
            begins.append((_first_line(node, lines, start), node if defined else None))
        plain = not defined
    if begins and begins[0][1] is None:
        begins[0] = (start, None)
    elif not begins or begins[0][0] > start:
        begins.insert(0, (start, None))
    for index, (begin, node) in enumerate(begins):
        stop = begins[index + 1][0] if index + 1 < len(begins) else end
        if begin >= stop:
            continue
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield _Piece(begin, stop, owner, f"class {owner}" if owner else "", opens=bool(owner) and begin == start)
            continue
        name = f"{owner}.{node.name}" if owner else node.name
        label = f"{_keyword(node)} {name}"
        size = estimate_tokens("\n".join(lines[begin:stop]))
        if isinstance(node, ast.ClassDef) and size > TARGET_TOKENS * 4 // 3:
            yield from _statement_pieces(node.body, lines, begin, stop, name)
        else:
            yield _Piece(begin, stop, name, label)


def _first_line(node: ast.stmt, lines: Sequence[str], floor: int) -> int:
    """The line (from 0) where a statement begins, with its decorators and the comment above it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    line = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while line > floor and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


def _fenced(lines: Sequence[str]) -> list[bool]:
    """For each line of Markdown, whether it belongs to a code fence."""
    fence = ""
    inside: list[bool] = []
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            inside.append(True)
            if found and found[1].startswith(fence):
                fence = ""
        else:
            inside.append(found is not None)
            fence = found[1] if found else ""
    return inside


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(line from 0, level, title) of every heading outside code."""
    fenced = _fenced(lines)
    for number, line in enumerate(lines):
        if fenced[number]:
            continue
        if found := _HEADING.match(line):
            yield number, len(found[1]), found[2]
        elif number and line.startswith("==") and not line.strip("= ") and lines[number - 1].strip():
            yield number - 1, 1, lines[number - 1].strip()


def _markdown_pieces(lines: Sequence[str]) -> list[_Piece]:
    headings = list(_headings(lines))
    pieces: list[_Piece] = []
    if not headings or headings[0][0] > 0:
        pieces.append(_Piece(0, headings[0][0] if headings else len(lines)))
    trail: list[tuple[int, str]] = []
    for index, (line, level, title) in enumerate(headings):
        while trail and trail[-1][0] >= level:
            trail.pop()
        trail.append((level, title))
        end = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
        pieces.append(_Piece(line, end, title, " > ".join(title for _, title in trail[-3:])))
    return pieces


def _definition(line: str, language: str) -> tuple[str, str] | None:
    """(name, label) of the definition that begins on this line."""
    pattern = _DEFINITIONS.get(language)
    found = pattern.match(line[:300]) if pattern else None
    if found is None:
        return None
    groups = found.groupdict()
    name = groups.get("name") or groups.get("function") or ""
    kind = groups.get("kind") or ""
    return (name, f"{kind} {name}".strip()) if name and name not in {"if", "while", "for", "switch", "return"} else None


def _plain_pieces(lines: Sequence[str], language: str) -> list[_Piece]:
    """Blocks between blank lines; a block that is indented belongs rather to the one before."""
    pieces: list[_Piece] = []
    prose = language in _PROSE or not language
    start = 0
    for number in range(1, len(lines) + 1):
        at_end = number == len(lines)
        if at_end or (lines[number].strip() and not lines[number - 1].strip()):
            block = lines[start:number]
            found = next((f for line in block if (f := _definition(line, language))), None)
            first = next((line for line in block if line.strip()), "")
            name, label = found or ("", "")
            pieces.append(_Piece(start, number, name, label, breaks=prose or not first[:1].isspace()))
            start = number
    return pieces


def _grouped(pieces: Sequence[_Piece], lines: Sequence[str]) -> Iterator[list[_Piece]]:
    """Pieces put together up to the target, and pieces over the maximum cut into several groups."""
    group: list[_Piece] = []
    size = 0
    for piece in pieces:
        tokens = estimate_tokens("\n".join(lines[piece.start : piece.end]))
        if tokens > MAX_TOKENS:
            if group:
                yield group
            group, size = [], 0
            yield from ([part] for part in _cut(piece, lines))
            continue
        headless = group[-1:] == [] or not group[-1].opens
        full = size + tokens > (TARGET_TOKENS if piece.breaks and headless else MAX_TOKENS)
        differs = bool(group) and bool(piece.name) and group[-1].name != piece.name
        large = differs and size > TINY_TOKENS and (size > MERGE_TOKENS or tokens > MERGE_TOKENS)
        if group and (full or piece.opens or (large and piece.breaks and headless)):
            yield group
            group, size = [], 0
        group.append(piece)
        size += tokens
    if group:
        yield group


def _cut(piece: _Piece, lines: Sequence[str]) -> Iterator[_Piece]:
    """A piece over the maximum in parts of about the target, cut at blank lines where there are some, else at lines."""
    start, size, part = piece.start, 0, 1
    for number in range(piece.start, piece.end):
        tokens = estimate_tokens(lines[number])
        blank = number > start and not lines[number - 1].strip()
        if number > start and (size + tokens > MAX_TOKENS * 3 // 4 or (size >= TARGET_TOKENS and blank)):
            yield _part(piece, start, number, part)
            start, size, part = number, 0, part + 1
        size += tokens
    yield _part(piece, start, piece.end, part)


def _part(piece: _Piece, start: int, end: int, part: int) -> _Piece:
    suffix = f" (part {part})" if piece.label else ""
    return _Piece(start, end, f"{piece.name}.{part}" if piece.name else "", piece.label + suffix)


def _chunk(group: Sequence[_Piece], lines: Sequence[str]) -> Chunk | None:
    start, end = group[0].start, group[-1].end
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    if start == end:
        return None
    labels = list(dict.fromkeys(piece.label for piece in group if piece.label))
    label = ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")
    # A class, else the largest of them: what a person would call it, and what stays when a small neighbour goes.
    name = max(group, key=lambda piece: (bool(piece.name), piece.opens, piece.end - piece.start)).name
    return Chunk(start + 1, end, name, " ".join(label.split())[:160], "\n".join(lines[start:end]))
