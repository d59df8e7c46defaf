"""Makes candidates for tests of ranking and selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from graphsvc.domain.candidates import Candidate, CandidateSource, CatalogEntry, GraphPath, Neighbourhood, SeedLink
from graphsvc.domain.units import ContextUnitKind, EdgeType, EpistemicStatus, Tier

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def make_entry(
    unit_id: str,
    *,
    kind: ContextUnitKind = ContextUnitKind.OBSERVATION,
    age: timedelta = timedelta(),
    content_sha256: str = "",
) -> CatalogEntry:
    """A catalog entry whose content no other has, unless a digest is given."""
    return CatalogEntry(
        unit_id=unit_id,
        unit_key=unit_id,
        agent_id="agent",
        session_id="session",
        task_step=0,
        kind=kind,
        epistemic_status=EpistemicStatus.TENTATIVE,
        timestamp=NOW - age,
        created_time=NOW - age,
        path="",
        model="",
        tier=Tier.WARM,
        relevance_score=0.0,
        pinned=False,
        content_sha256=content_sha256 or f"sha-{unit_id}",
        size_bytes=1,
        token_counts={},
    )


def make_path(hops: int, unit_id: str, *, anchor: str = "task:T", match_count: int | None = None) -> GraphPath:
    """A path of that many dependency edges; every edge matches unless said."""
    ids = (unit_id,) if hops == 0 else (anchor, *(f"via{n}" for n in range(hops - 1)), unit_id)
    return GraphPath(hops, (EdgeType.DEPENDENCY,) * hops, ids, hops if match_count is None else match_count)


def make_candidate(
    unit_id: str,
    *,
    hops: int | None = None,
    anchor: str = "task:T",
    match_count: int | None = None,
    topic_score: float = 0.0,
    kind: ContextUnitKind = ContextUnitKind.OBSERVATION,
    age: timedelta = timedelta(),
    content_sha256: str = "",
    superseded_by: str = "",
    unreferenced_count: int = 0,
    sources: Sequence[CandidateSource] = (),
    session_id: str = "",
    term_coverage: float | None = None,
    lead: str = "",
    links: Sequence[SeedLink] = (),
    turns: Sequence[tuple[str, int]] = (),
    in_degree: int = 1,
    lowered: bool = False,
    companion_ids: Sequence[str] = (),
) -> Candidate:
    """A candidate; sources follow from hops and topic_score unless given, coverage from topic_score.

    It has a session of its own unless one is given.
    """
    found = set(sources)
    if not found:
        found |= {CandidateSource.GRAPH} if hops is not None else set()
        found |= {CandidateSource.FULL_TEXT} if topic_score else set()
    return Candidate(
        entry=replace(
            make_entry(unit_id, kind=kind, age=age, content_sha256=content_sha256), session_id=session_id or unit_id
        ),
        sources=frozenset(found),
        path=None if hops is None else make_path(hops, unit_id, anchor=anchor, match_count=match_count),
        topic_score=topic_score,
        full_text_score=None,
        vector_score=None,
        superseded_by=superseded_by,
        unreferenced_count=unreferenced_count,
        neighbourhood=Neighbourhood(tuple(links), tuple(turns), in_degree),
        term_coverage=topic_score if term_coverage is None else term_coverage,
        lead=lead,
        lowered=lowered,
        companion_ids=tuple(companion_ids),
    )
