"""Every Cypher statement of the service: one file each in ``cypher/``, read and checked once at start.

Source: design.md, Cypher files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import LiteralString, cast

from graphsvc.domain.errors import ErrorReason, Internal

SCHEMA_FOLDER = "schema"
SHARED_FILE = "visibility.cypher"
SHARED_PARTS = ("grants", "visible", "entry")

_HEADINGS = ("Mode", "Params", "Returns", "Order", "Index", "Serves", "Source")
_OPTIONAL_HEADINGS = ("Visibility",)
_HEADING = re.compile(rf"^// ({'|'.join(_HEADINGS + _OPTIONAL_HEADINGS)}):\s*(.*)$")
_FIELD = re.compile(r"^//   (\w+) \(([^()]+)\): (.+)$")
_EXAMPLE = re.compile(r"^:param (\w+) => (.+);$")
_STRING_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_USED = re.compile(r"\$(\w+)")


class Mode(StrEnum):
    """What a statement does to the database."""

    READ = "READ"
    WRITE = "WRITE"
    SCHEMA = "SCHEMA"
    """Creates an index or a constraint; only in ``cypher/schema``, where no statement has a tenant."""


@dataclass(frozen=True, slots=True)
class Param:
    """A statement's parameter: its Cypher type with unit and range, what it means, and an example as Cypher text."""

    name: str
    type: str
    meaning: str
    example: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a statement returns."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One Cypher statement, ready to be sent.

    Attributes:
        name: stem of the file; port method, metric label and transaction metadata.
        folder: folder under ``cypher/``; empty for the shared file itself.
        text: what is sent, byte for byte the file's after its ``:param`` lines.
        returns: columns in order; empty: the statement returns none.
        header: text of each heading, and the first sentence under "".
    """

    name: str
    folder: str
    text: LiteralString
    mode: Mode
    params: tuple[Param, ...]
    returns: tuple[Column, ...]
    header: Mapping[str, str]


class Catalog(Mapping[str, Statement]):
    """Statements by name."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = dict(statements)

    def __getitem__(self, name: str) -> Statement:
        """The statement of this name.

        Raises:
            Internal: INTERNAL_FAULT, no such file: a bug, found at start because stores look statements up then.
        """
        try:
            return self._statements[name]
        except KeyError:
            raise Internal(ErrorReason.INTERNAL_FAULT, f"no statement {name} in cypher/") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)

    def in_folder(self, folder: str) -> tuple[Statement, ...]:
        """The statements of one folder, by name: the order in which schema statements are applied."""
        return tuple(s for _, s in sorted(self._statements.items()) if s.folder == folder)


def read_sources() -> dict[str, str]:
    """Text of every statement file by its path under ``cypher/``: the package's data, else the source tree."""
    packaged = files("graphsvc") / "_cypher"
    root = Path(str(packaged)) if packaged.is_dir() else Path(__file__).resolve().parents[2] / "cypher"
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(root.rglob("*.cypher"))}


def load_catalog(sources: Mapping[str, str] | None = None) -> Catalog:
    """All statements, each checked.

    Args:
        sources: file text by path under ``cypher/``; None: the package's own.

    Raises:
        Internal: INTERNAL_FAULT, a file breaks a rule; the message names file and rule.
    """
    texts = read_sources() if sources is None else sources
    shared = dict(_parts(SHARED_FILE, texts.get(SHARED_FILE, "")))
    if tuple(shared) != SHARED_PARTS:
        raise _fault(SHARED_FILE, f"must hold the parts {', '.join(SHARED_PARTS)}, once each, in this order")
    statements: dict[str, Statement] = {}
    for path, text in texts.items():
        statement = _parse(path, text, shared)
        if statement.name in statements:
            raise _fault(path, "another file has the same stem")
        statements[statement.name] = statement
    return Catalog(statements)


def _fault(path: str, rule: str) -> Internal:
    return Internal(ErrorReason.INTERNAL_FAULT, f"cypher/{path}: {rule}")


def _parse(path: str, text: str, shared: Mapping[str, tuple[str, ...]]) -> Statement:
    folder, _, file = path.rpartition("/")
    lines = text.splitlines()
    header_end = next((n for n, line in enumerate(lines) if not line.startswith("//")), len(lines))
    header, params, returns = _header(path, lines[:header_end])

    examples: dict[str, str] = {}
    position = header_end
    while position < len(lines) and lines[position].startswith(":param"):
        found = _EXAMPLE.match(lines[position])
        if found is None:
            raise _fault(path, f"line {position + 1} must read `:param name => value;`")
        examples[found[1]] = found[2]
        position += 1
    body = "\n".join(lines[position:]).strip()
    if not body.endswith(";") or ";" in _STRING_OR_COMMENT.sub("", body[:-1]):
        raise _fault(path, "must hold one statement, ended by `;`")
    body = body[:-1].rstrip()

    used = set(_USED.findall(_STRING_OR_COMMENT.sub("", body)))
    if not used == set(params) == set(examples):
        raise _fault(path, "parameters of the statement, the header and the :param lines differ")
    mode = Mode(header["Mode"]) if header["Mode"] in Mode.__members__ else None
    if mode is None or (mode is Mode.SCHEMA and folder != SCHEMA_FOLDER):
        raise _fault(path, "Mode must be READ, WRITE or, in schema/ only, SCHEMA")
    if folder != SCHEMA_FOLDER:
        if "tenant_id" not in used:
            raise _fault(path, "a statement outside schema/ must use $tenant_id")
        _check_shared(path, body, header, shared)
    return Statement(
        name=file.removesuffix(".cypher"),
        folder=folder,
        # The one cast: statements are files of this package, never built from input.
        text=cast(LiteralString, body),
        mode=mode,
        params=tuple(Param(n, *params[n], example=examples[n]) for n in params),
        returns=tuple(Column(n, *returns[n]) for n in returns),
        header=header,
    )


def _header(
    path: str, lines: list[str]
) -> tuple[dict[str, str], dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    header: dict[str, list[str]] = {"": []}
    fields: dict[str, dict[str, tuple[str, str]]] = {"Params": {}, "Returns": {}}
    heading = ""
    for line in lines:
        if line == "//":  # what follows is prose for the reader
            break
        found = _HEADING.match(line)
        if found is not None:
            heading = found[1]
            if heading in header:
                raise _fault(path, f"heading {heading} stands twice")
            header[heading] = [found[2]] if found[2] else []
            continue
        field = _FIELD.match(line)
        if field is not None and heading in fields:
            fields[heading][field[1]] = (field[2], field[3])
            continue
        text = line.removeprefix("//").strip()
        if fields.get(heading):
            name = next(reversed(fields[heading]))
            fields[heading][name] = (fields[heading][name][0], f"{fields[heading][name][1]} {text}")
        else:
            header[heading].append(text)
    for name in _HEADINGS:
        if not header.get(name) and not fields.get(name):
            raise _fault(path, f"the header lacks {name} (write `none` where there is none)")
    if not header[""] or not header[""][-1].endswith("."):
        raise _fault(path, "the header must begin with one sentence that says what comes back or changes")
    return {k: " ".join(v) for k, v in header.items()}, fields["Params"], fields["Returns"]


def _parts(path: str, body: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each shared part of a text, indentation aside."""
    name = ""
    lines: list[str] = []
    for line in (raw.strip() for raw in body.splitlines()):
        begin = re.fullmatch(r"// (\w+): begin", line)
        if begin is not None:
            name, lines = begin[1], []
        elif name and line == f"// {name}: end":
            yield name, tuple(lines)
            name = ""
        elif name:
            lines.append(line)
    if name:
        raise _fault(path, f"part {name} has no end")


def _check_shared(path: str, body: str, header: Mapping[str, str], shared: Mapping[str, tuple[str, ...]]) -> None:
    present: set[str] = set()
    for name, lines in _parts(path, body):
        if name not in shared:
            raise _fault(path, f"part {name} is not in {SHARED_FILE}")
        if lines != shared[name]:
            raise _fault(path, f"part {name} differs from {SHARED_FILE}")
        present.add(name)
    if ":ContextUnit" in body and "visible" not in present and "Visibility" not in header:
        raise _fault(
            path, "reads units without the part `visible`; a heading `Visibility:` must say why none is needed"
        )
