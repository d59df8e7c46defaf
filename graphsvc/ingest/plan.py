"""Decides which units and edges a source should have, given what the service already holds of it. Pure.

What exists is never written again: a unit is immutable, and its key names one version of one thing. So the same source
twice changes nothing, and an ingest that was broken off is continued by running it again.

- A *file version* is one unit: header and outline. Its key is path + blob id. The next version supersedes it, along
  renames too; a deletion is a version as well (with git's null id), which supersedes the file and all its chunks, so
  that what is gone is never delivered as current and a retrieval ``as_of`` an earlier time still finds it.
- *Chunks* exist for versions that were HEAD at some ingest. A new chunk supersedes the current chunk of the same
  definition, else the one at the same place; chunks that vanished are superseded by the file's new version. Nothing is
  deleted: cold storage holds the complete history, and the edges of an old version stay true of it.
- *Commits* are decisions. A commit's unit comes after the versions it made, so where it exists, they do.

Source: gates N1 to N3, T12; product.md, What must be true of every answer (6).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from graphsvc.domain.content import fence, is_html, is_json_document
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ingest.chunks import (
    FENCED_LANGUAGES,
    MAX_OUTLINE,
    Chunk,
    chunk_text,
    language_of,
    outline,
    summary_line,
)
from graphsvc.ingest.git import NULL_ID, ChangeKind, Commit, FileChange, Source, SourceFile, path_skip_reason
from graphsvc.ingest.imports import find_dependencies

CHUNK_ROLE = "chunk"
VERSION_ROLE = "version"
REPLACES_ROLE = "replaces"
MAX_COMMIT_FILES = 256
"""Files a commit gets an edge to; a commit that touched more says little about any of them."""
_LISTED_PATHS = 20
_MAX_MESSAGE_CHARACTERS = 2000
_MAX_NAME_BYTES = 60
_MAX_KEY_PATH_BYTES = 150
_ID_DIGITS = 12
_BINARY_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class PlannedRelation:
    """A typed edge to the unit with this key."""

    target_key: str
    edge_type: EdgeType
    role: str = ""


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A unit that should exist. Targets of its relations are known already or come before it in the plan."""

    key: str
    kind: ContextUnitKind
    content: str
    timestamp: datetime
    path: str = ""
    provenance: tuple[str, ...] = ()
    relations: tuple[PlannedRelation, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """An edge that should exist between two units, once all units do."""

    source_key: str
    relation: PlannedRelation


@dataclass(frozen=True, slots=True)
class KnownUnit:
    """A unit that the service holds."""

    key: str
    path: str
    superseded: bool
    relations: frozenset[PlannedRelation] = frozenset()


@dataclass(frozen=True, slots=True)
class Plan:
    """What should exist.

    Attributes:
        counts: things of the source by name ("files", "chunks", "commits"), for the summary.
        skipped: files left out, by reason.
        notices: sentences for the user.
    """

    units: tuple[PlannedUnit, ...]
    edges: tuple[PlannedEdge, ...]
    counts: Mapping[str, int]
    skipped: Mapping[str, int]
    notices: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Version:
    """A version of a file, in the service (``known``) or to be written."""

    key: str
    path: str
    blob: str
    change: FileChange | None = None
    commit: Commit | None = None
    earlier: list[_Version] = field(default_factory=list["_Version"])
    known: bool = False
    reason: str = ""

    @property
    def is_deletion(self) -> bool:
        return self.blob == short_id(NULL_ID)


def plan_source(
    source: Source,
    known: Mapping[str, KnownUnit],
    *,
    now: datetime,
    versions_per_file: int = 5,
    kind: ContextUnitKind = ContextUnitKind.STATE_SNAPSHOT,
) -> Plan:
    """The units and edges of a repository or a folder of files.

    Args:
        source: as read.
        known: units of this agent and session that the service holds, by key.
        now: no unit is dated later.
        versions_per_file: versions of one file that one ingest adds at most, newest kept, 1 or more.
        kind: of files and chunks.
    """
    return _SourcePlan(source, known, now, max(versions_per_file, 1), kind).make()


def short_id(object_id: str) -> str:
    """The first 12 hex digits."""
    return object_id[:_ID_DIGITS]


def path_name(path: str, limit: int = _MAX_KEY_PATH_BYTES) -> str:
    """The path as part of a unit key: itself, or its end and a digest where it is long."""
    if len(path.encode()) <= limit:
        return path
    digest = hashlib.sha256(path.encode()).hexdigest()[:16]
    return f"{path.encode()[-(limit - 17) :].decode(errors='ignore')}~{digest}"


def chunk_units(
    file_key: str,
    path: str,
    chunks: Sequence[Chunk],
    *,
    kind: ContextUnitKind,
    timestamp: datetime,
    origin: Sequence[str],
) -> list[PlannedUnit]:
    """Units of a file's or document's chunks, each with provenance to it, superseding nothing yet."""
    language = FENCED_LANGUAGES.get(language_of(path), "")
    stem = file_key.split(":", 1)[1]
    units: list[PlannedUnit] = []
    for position, chunk in enumerate(chunks, 1):
        label = f" {chunk.label}" if chunk.label else ""
        body = fence(chunk.text, language).rstrip("\n") if language else chunk.text
        units.append(
            PlannedUnit(
                key=f"chunk:{stem}#{position:04d}:{_slug(chunk.name)}",
                kind=kind,
                content=acceptable(f"{path}:{chunk.start}-{chunk.end}{label}\n{body}"),
                timestamp=timestamp,
                path=path,
                provenance=(f"lines {chunk.start}-{chunk.end}", *origin),
                relations=(PlannedRelation(file_key, EdgeType.PROVENANCE, CHUNK_ROLE),),
            )
        )
    return units


def acceptable(text: str) -> str:
    """The text as the content rules take it: no control characters, no JSON or HTML at its beginning."""
    text = _BINARY_CONTROL.sub("\ufffd", text).encode(errors="replace").decode()
    # Only a path can bring this about: every content begins with one, or with a word.
    return f"File {text}" if is_html(text) or is_json_document(text) else text


def supersede_chunks(
    fresh: Sequence[PlannedUnit], stale: Sequence[KnownUnit]
) -> tuple[list[PlannedUnit], list[KnownUnit]]:
    """The new chunks, each superseding the old one that it replaces, and the old chunks that none replaces.

    One replaces the old chunk of the same name; one without a name, that without a name at the same place.

    Args:
        fresh: new chunks of one file, in order.
        stale: its current old chunks.
    """
    waiting: dict[str, list[KnownUnit]] = defaultdict(list)
    for unit in sorted(stale, key=lambda unit: unit.key):
        position, name = _chunk_place(unit.key)
        waiting[name or f"#{position}"].append(unit)
    result: list[PlannedUnit] = []
    for unit in fresh:
        position, name = _chunk_place(unit.key)
        matches = waiting.get(name or f"#{position}")
        if matches:
            relation = PlannedRelation(matches.pop(0).key, EdgeType.SUPERSESSION, REPLACES_ROLE)
            result.append(replace(unit, relations=(*unit.relations, relation)))
        else:
            result.append(unit)
    left = sorted((unit for units in waiting.values() for unit in units), key=lambda unit: unit.key)
    return result, left


class _SourcePlan:
    """The making of one plan."""

    def __init__(
        self,
        source: Source,
        known: Mapping[str, KnownUnit],
        now: datetime,
        versions_per_file: int,
        kind: ContextUnitKind,
    ) -> None:
        self._kind = kind
        self._source = source
        self._known = known
        self._now = now
        self._limit = versions_per_file
        self._keys = set(known)
        self._versions: dict[str, _Version] = {}
        self._current: dict[str, _Version] = {}
        self._stale_chunks: dict[str, list[KnownUnit]] = defaultdict(list)
        self._also_current: dict[str, list[_Version]] = defaultdict(list)
        self._read_known()

    def _read_known(self) -> None:
        for key in sorted(self._known):
            unit = self._known[key]
            if key.startswith("file:"):
                version = _Version(key, unit.path, _blob_of(key), known=True)
                self._versions[key] = version
                if not unit.superseded:
                    # Two current versions of one path: two ingests at once. The next version supersedes both.
                    self._also_current[unit.path].append(version)
                    self._current[unit.path] = version
            elif key.startswith("chunk:") and not unit.superseded:
                self._stale_chunks[unit.path].append(unit)
        for key, version in self._versions.items():
            version.earlier = [
                self._versions[relation.target_key]
                for relation in self._known[key].relations
                if relation.edge_type is EdgeType.SUPERSESSION and relation.target_key in self._versions
            ]

    def make(self) -> Plan:
        files = {file.path: file for file in self._source.files}
        commits = self._new_commits()
        made: dict[str, list[tuple[ChangeKind, _Version]]] = {
            commit.commit_id: self._apply(commit, files) for commit in commits
        }
        base = [self._head_version(file) for file in self._source.files]
        gone = self._vanished(files)
        dropped = self._drop_old_versions()
        heads = {version.key: version for version in (self._current[path] for path in files)}

        units: list[PlannedUnit] = []
        edges: list[PlannedEdge] = []
        written: set[str] = set()

        def write(version: _Version) -> None:
            if version.key in written or version.key in dropped:
                return
            written.add(version.key)
            file = files.get(version.path) if version.key in heads else None
            planned, extra = self._version_units(version, file)
            units.extend(planned)
            edges.extend(extra)

        for version in base:
            if version.commit is None and all(earlier.known for earlier in version.earlier):
                write(version)
        for commit in commits:
            for _, version in made[commit.commit_id]:
                write(version)
            units.append(self._commit_unit(commit, made[commit.commit_id], dropped))
        for version in (*base, *gone):
            write(version)
        edges.extend(self._dependencies(files))
        chunk_count = sum(unit.key.startswith("chunk:") for unit in units)
        return Plan(
            units=tuple(units),
            edges=tuple(edges),
            counts={"files": len(files), "chunks": chunk_count, "commits": len(self._source.commits)},
            skipped=dict(sorted(self._source.skipped.items())),
            notices=self._source.notices,
        )

    def _new_commits(self) -> Sequence[Commit]:
        """Commits after the newest that the service holds; all of them when it holds none."""
        commits = self._source.commits
        for index in range(len(commits) - 1, -1, -1):
            if commit_key(commits[index]) in self._known:
                return commits[index + 1 :]
        return commits

    def _apply(self, commit: Commit, files: Mapping[str, SourceFile]) -> list[tuple[ChangeKind, _Version]]:
        """The versions a commit made, after moving on what is current."""
        made: list[tuple[ChangeKind, _Version]] = []
        for change in commit.changes:
            if not self._wanted(change, files):
                continue
            current = self._current.get(change.path)
            if current is not None and current.blob == short_id(change.blob_id):
                # Only its mode changed, or an ingest that was broken off has written it.
                made.append((change.kind, current))
                continue
            before = [current] if current is not None else []
            if change.old_path and change.old_path in self._current:
                before.append(self._current.pop(change.old_path))
            if change.kind is ChangeKind.DELETED and not before:
                # Deleted, and never seen with content: there is nothing that could be taken for current.
                continue
            version = self._fresh(change.path, change.blob_id, before)
            version.change, version.commit = change, commit
            made.append((change.kind, version))
        return made

    def _wanted(self, change: FileChange, files: Mapping[str, SourceFile]) -> bool:
        if change.path in files:
            return True
        return (
            change.path not in self._source.skipped_paths
            and not change.is_binary
            and path_skip_reason(change.path) is None
        )

    def _fresh(self, path: str, blob_id: str, before: Iterable[_Version]) -> _Version:
        stem = f"file:{path_name(path)}@{short_id(blob_id)}"
        key, count = stem, 1
        while key in self._keys:
            # The path had this content before, and something else since.
            count += 1
            key = f"{stem}~{count}"
        self._keys.add(key)
        earlier = [*before]
        earlier.extend(v for v in self._also_current.pop(path, ()) if v not in earlier and v.known)
        version = _Version(key, path, short_id(blob_id), earlier=earlier)
        self._versions[key] = self._current[path] = version
        return version

    def _head_version(self, file: SourceFile) -> _Version:
        """The version at HEAD: the current one where the content is the same, else one whose commit is not known."""
        current = self._current.get(file.path)
        if current is not None and current.blob == short_id(file.blob_id):
            return current
        return self._fresh(file.path, file.blob_id, [current] if current is not None else [])

    def _vanished(self, files: Mapping[str, SourceFile]) -> list[_Version]:
        """Deletions of what is current in the service but no longer in the source, without a commit that says so."""
        gone: list[_Version] = []
        for path in sorted(self._current):
            current = self._current[path]
            if path in files or current.is_deletion:
                continue
            version = self._fresh(path, NULL_ID, [current])
            skipped = path in self._source.skipped_paths
            version.reason = "no longer ingested" if skipped else f"no longer in {self._source.name}"
            gone.append(version)
        return gone

    def _drop_old_versions(self) -> set[str]:
        """Keys of new versions over the limit of their file; the chain is closed over them."""
        dropped: set[str] = set()
        for last in list(self._current.values()):
            kept, version = 0, last
            later: _Version | None = None
            while not version.known:
                before = version.earlier
                if kept >= self._limit and later is not None:
                    dropped.add(version.key)
                    later.earlier = [*(v for v in later.earlier if v is not version), *before]
                else:
                    kept += 1
                    later = version
                following = [v for v in before if not v.known]
                if not following:
                    break
                version = following[0]
        return dropped

    def _version_units(self, version: _Version, file: SourceFile | None) -> tuple[list[PlannedUnit], list[PlannedEdge]]:
        """The version's unit, and chunks where it is HEAD's; edges that a version already written still lacks."""
        timestamp = self._date(version, file)
        origin = self._origin(version)
        chunks: list[PlannedUnit] = []
        unreplaced: list[KnownUnit] = []
        if file is not None or version.is_deletion:
            pieces = chunk_text(file.path, file.text) if file is not None else []
            chunks = chunk_units(version.key, version.path, pieces, kind=self._kind, timestamp=timestamp, origin=origin)
            wanted = {unit.key for unit in chunks}
            stale = self._take_stale_chunks(version, wanted)
            chunks, unreplaced = supersede_chunks(chunks, stale)
        relations = [
            *(PlannedRelation(v.key, EdgeType.SUPERSESSION, VERSION_ROLE) for v in version.earlier),
            *(PlannedRelation(unit.key, EdgeType.SUPERSESSION, REPLACES_ROLE) for unit in unreplaced),
        ]
        if version.known:
            return self._without_leftovers(chunks, unreplaced), []
        unit = PlannedUnit(
            key=version.key,
            kind=self._kind,
            content=acceptable(_head_text(file, len(chunks)) if file is not None else self._old_text(version)),
            timestamp=timestamp,
            path=version.path,
            provenance=origin,
            relations=tuple(relations),
        )
        return [unit, *chunks], []

    def _without_leftovers(self, chunks: list[PlannedUnit], leftovers: Sequence[KnownUnit]) -> list[PlannedUnit]:
        """The chunks of a version that is written already, the last new one superseding what none of them replaces.

        There are leftovers only when a newer graphsvc cuts the same text otherwise. The file's unit is older than they
        are, so it cannot supersede them; without a new chunk they stay, being as true as the others.
        """
        for index in range(len(chunks) - 1, -1, -1):
            if chunks[index].key not in self._known:
                extra = (PlannedRelation(unit.key, EdgeType.SUPERSESSION, REPLACES_ROLE) for unit in leftovers)
                chunks[index] = replace(chunks[index], relations=(*chunks[index].relations, *extra))
                break
        return chunks

    def _take_stale_chunks(self, version: _Version, wanted: Collection[str]) -> list[KnownUnit]:
        paths: dict[str, None] = {}
        waiting = [version]
        seen: set[str] = set()
        while waiting:
            at = waiting.pop()
            if at.key not in seen:
                seen.add(at.key)
                paths[at.path] = None
                waiting.extend(at.earlier)
        taken: list[KnownUnit] = []
        for path in paths:
            if path != version.path and path in self._current and not self._current[path].is_deletion:
                continue  # another file has this path now, and its own chunks
            stale = self._stale_chunks.pop(path, [])
            taken.extend(unit for unit in stale if unit.key not in wanted)
        return taken

    def _date(self, version: _Version, file: SourceFile | None) -> datetime:
        """When the version became true; one older than the commits read is dated as the oldest of them."""
        if version.commit is not None:
            return min(version.commit.author_time, self._now)
        if self._source.commits and not version.earlier:
            return min(self._source.commits[0].author_time, self._now)
        if file is not None and file.modified is not None:
            return min(file.modified, self._now)
        if self._source.commits:
            return min(self._source.commits[-1].author_time, self._now)
        return self._now

    def _origin(self, version: _Version) -> tuple[str, ...]:
        commit = (f"commit {version.commit.commit_id}",) if version.commit is not None else ()
        return (*commit, self._source_name())

    def _source_name(self) -> str:
        return f"{'git' if self._source.head else 'folder'} {self._source.name}"

    def _old_text(self, version: _Version) -> str:
        commit, change = version.commit, version.change
        if commit is None or change is None:
            return f"{version.path}: {version.reason or 'an earlier version'}"
        by = f"commit {short_id(commit.commit_id)} of {commit.author_time:%Y-%m-%d}, {_subject(commit)}"
        if version.is_deletion:
            return f"{version.path}: deleted by {by}"
        action = f"renamed from {change.old_path}" if change.old_path else change.kind.value
        return f"{version.path}: earlier version {version.blob}, {action} by {by} ({_line_counts(change)} lines)"

    def _commit_unit(
        self, commit: Commit, made: Sequence[tuple[ChangeKind, _Version]], dropped: Collection[str]
    ) -> PlannedUnit:
        targets = dict.fromkeys(
            PlannedRelation(version.key, EdgeType.CAUSATION, kind.value)
            for kind, version in made
            if version.key not in dropped
        )
        return PlannedUnit(
            key=commit_key(commit),
            kind=ContextUnitKind.DECISION,
            content=acceptable(commit_text(commit)),
            timestamp=min(commit.author_time, self._now),
            provenance=(f"commit {commit.commit_id}", self._source_name()),
            relations=tuple(targets)[:MAX_COMMIT_FILES],
        )

    def _dependencies(self, files: Mapping[str, SourceFile]) -> Iterator[PlannedEdge]:
        for found in find_dependencies({path: file.text for path, file in files.items()}):
            relation = PlannedRelation(self._current[found.target].key, EdgeType.DEPENDENCY, found.role)
            yield PlannedEdge(self._current[found.source].key, relation)


def commit_key(commit: Commit) -> str:
    """The unit key of a commit."""
    return f"commit:{commit.commit_id}"


def commit_text(commit: Commit) -> str:
    """A commit as an agent reads it: id, date, author, message, changed paths."""
    message = commit.message or "(no message)"
    if len(message) > _MAX_MESSAGE_CHARACTERS:
        message = message[:_MAX_MESSAGE_CHARACTERS].rsplit(None, 1)[0] + " …"
    author = " ".join(commit.author.split())
    lines = [f"commit {short_id(commit.commit_id)} of {commit.author_time:%Y-%m-%d} by {author}", message]
    if commit.merged_subjects:
        lines += ["", "Merges:", *(f"- {' '.join(subject.split())[:120]}" for subject in commit.merged_subjects)]
    if commit.changes:
        lines += ["", f"Changes {len(commit.changes)} {'file' if len(commit.changes) == 1 else 'files'}:"]
        lines += [f"- {_change_text(change)}" for change in commit.changes[:_LISTED_PATHS]]
        if len(commit.changes) > _LISTED_PATHS:
            kinds = Counter(change.kind.value for change in commit.changes[_LISTED_PATHS:])
            lines.append("- and " + ", ".join(f"{count} more {kind}" for kind, count in sorted(kinds.items())))
    return "\n".join(lines)


def _subject(commit: Commit) -> str:
    return (commit.message.splitlines() or ["(no message)"])[0][:120]


def _line_counts(change: FileChange) -> str:
    return "binary" if change.is_binary else f"+{change.added_lines} −{change.deleted_lines}"


def _change_text(change: FileChange) -> str:
    before = f" from {change.old_path}" if change.old_path else ""
    return f"{change.path} {change.kind.value}{before} ({_line_counts(change)})"


def _head_text(file: SourceFile, chunk_count: int) -> str:
    language = language_of(file.path) or "text"
    line_count = file.text.count("\n") + (not file.text.endswith("\n"))
    lines = [f"{file.path} ({language}, {_size(file.size_bytes)}, {line_count} lines, {chunk_count} chunks)"]
    if summary := summary_line(file.path, file.text):
        lines.append(summary)
    definitions = outline(file.path, file.text)
    if definitions:
        shown = [f"{' '.join(d.label.split())[:80]} ({d.line})" for d in definitions[:MAX_OUTLINE]]
        more = f" and {len(definitions) - MAX_OUTLINE} more" if len(definitions) > MAX_OUTLINE else ""
        lines.append("Defines: " + ", ".join(shown) + more)
    return "\n".join(lines)


def _size(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 1024 else f"{size_bytes / 1024:.1f} KiB"


def _slug(name: str) -> str:
    slug = re.sub(r"[^\w.]+", "-", name).strip("-")
    return slug.encode()[:_MAX_NAME_BYTES].decode(errors="ignore")


def _blob_of(file_key: str) -> str:
    return file_key.rsplit("@", 1)[-1].split("~", 1)[0]


def _chunk_place(chunk_key: str) -> tuple[str, str]:
    """(position, name) of a chunk's key."""
    position, _, name = chunk_key.rsplit("#", 1)[-1].partition(":")
    return position, name


def utc_now() -> datetime:
    """The time now, in whole seconds, aware."""
    return datetime.now(UTC).replace(microsecond=0)
