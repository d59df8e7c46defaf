"""Strategies of candidate identification: around a task, about a topic.

Both end in the same list of candidates, each with every source that found it; they differ in what the anchors are.
Source: seed selection-budgeted-retrieval, Candidate identification; gates N6, B2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from graphsvc.domain.candidates import Candidate, CandidateSource, CatalogEntry, Outcome
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    ContextGraph,
    Expansion,
    FeedbackStore,
    ReadOptions,
    TopicQuery,
    TopicResult,
    Traversal,
    Vector,
)
from graphsvc.ranking.fusion import fuse
from graphsvc.services.drafts import RetrievalQuery

AROUND_TASK = "around_task"
ABOUT_TOPIC = "about_topic"

TOPIC_ANCHORS = 3
"""Best topic hits that become the anchors when no task or unit is named (gate B2)."""

_NO_EXPANSION = Expansion(hits=(), anchor_ids=(), partial=False, blocked_count=0)
_NO_TOPIC = TopicResult(hits=(), usable_terms=False, partial=False, blocked_count=0, visible_scopes=1)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of candidate identification (settings of the same names)."""

    max_candidates: int
    hub_degree_cap: int
    scan_limit: int


@dataclass(frozen=True, slots=True)
class Identified:
    """Candidates of a retrieval, by unit_id, and how they were found.

    Attributes:
        empty_outcome: what the retrieval's outcome is when there is no candidate.
        missing_handles: named anchors that are absent or not visible.
    """

    candidates: tuple[Candidate, ...]
    strategy: str
    anchor_ids: tuple[str, ...]
    missing_handles: tuple[str, ...]
    partial: bool
    empty_outcome: Outcome
    notices: tuple[str, ...]


async def identify(
    graph: ContextGraph,
    feedback: FeedbackStore,
    principal: Principal,
    query: RetrievalQuery,
    *,
    embedding: Vector | None,
    fingerprint: str,
    limits: Limits,
    options: ReadOptions,
) -> Identified:
    """The candidates for a query: topic hits, then everything near the anchors, merged by unit.

    The topic search runs first, since its best hits are the anchors when none is named, and since the traversal
    measures the distance of every topic hit in the same statement.

    Raises:
        Unavailable, DeadlineExceeded: the graph does not answer in time.
    """
    notices: list[str] = []
    topic_query = TopicQuery(query.text, embedding, limits.max_candidates, query.kinds, fingerprint, query.as_of)
    topic, unreferenced = await asyncio.gather(
        _search(graph, principal, topic_query, options), feedback.count_unreferenced(principal, options)
    )
    if query.text and not topic.usable_terms:
        notices.append("the query has no searchable word; full-text search was left out")
    if query.text and embedding is None:
        notices.append("the query has no embedding, or the embedder did not answer in time; vector search was left out")
    fused = fuse(topic.hits)
    named = bool(query.task_id or query.anchor_unit_ids)
    expansion = _NO_EXPANSION
    if named:
        expansion = await _expand(graph, principal, query, fingerprint, fused, limits, options, query.anchor_unit_ids)
    if not expansion.anchor_ids:
        best = _best_current(topic, fused)
        if named and best:
            notices.append("no named anchor is there; the best topic hits are the anchors")
        if best:
            expansion = await _expand(graph, principal, query, fingerprint, fused, limits, options, best, task=False)
    anchored = named and bool(set(expansion.anchor_ids) & {f"task:{query.task_id}", *query.anchor_unit_ids})
    blocked = topic.blocked_count + expansion.blocked_count
    return Identified(
        candidates=_merge(topic, expansion, fused, unreferenced.result, query),
        strategy=AROUND_TASK if anchored else ABOUT_TOPIC,
        anchor_ids=expansion.anchor_ids,
        missing_handles=tuple(sorted(set(query.anchor_unit_ids) - set(expansion.anchor_ids))) if named else (),
        partial=topic.partial or expansion.partial,
        empty_outcome=_empty_outcome(topic, blocked),
        notices=tuple(notices),
    )


async def _search(graph: ContextGraph, principal: Principal, query: TopicQuery, options: ReadOptions) -> TopicResult:
    return (await graph.search(principal, query, options)).result if query.text else _NO_TOPIC


async def _expand(
    graph: ContextGraph,
    principal: Principal,
    query: RetrievalQuery,
    fingerprint: str,
    fused: Mapping[str, float],
    limits: Limits,
    options: ReadOptions,
    unit_ids: tuple[str, ...],
    *,
    task: bool = True,
) -> Expansion:
    traversal = Traversal(
        task_ids=(query.task_id,) if task and query.task_id else (),
        unit_ids=unit_ids,
        directions=query.directions,
        wanted=query.wanted,
        max_hops=query.max_hops,
        limit=limits.max_candidates,
        candidate_ids=tuple(sorted(fused)),
        fingerprint=fingerprint,
        as_of=query.as_of,
        hub_degree_cap=limits.hub_degree_cap,
        scan_limit=limits.scan_limit,
    )
    return (await graph.expand(principal, traversal, options)).result


def _best_current(topic: TopicResult, fused: Mapping[str, float]) -> tuple[str, ...]:
    current = [hit.entry.unit_id for hit in topic.hits if not hit.superseded_by]
    return tuple(sorted(current, key=lambda unit_id: (-fused[unit_id], unit_id))[:TOPIC_ANCHORS])


def _empty_outcome(topic: TopicResult, blocked: int) -> Outcome:
    if topic.visible_scopes == 0:
        return Outcome.NOTHING_PERMITTED
    return Outcome.ALL_BLOCKED if blocked else Outcome.NOTHING_MATCHED


def _merge(
    topic: TopicResult,
    expansion: Expansion,
    fused: Mapping[str, float],
    unreferenced: Mapping[str, int],
    query: RetrievalQuery,
) -> tuple[Candidate, ...]:
    entries: dict[str, CatalogEntry] = {}
    superseded: dict[str, str] = {}
    sources: dict[str, set[CandidateSource]] = {}
    for hit in expansion.hits:
        if query.kinds and hit.entry.kind not in query.kinds:
            continue
        entries[hit.entry.unit_id] = hit.entry
        superseded[hit.entry.unit_id] = hit.superseded_by
        named = hit.entry.unit_id in query.anchor_unit_ids
        sources[hit.entry.unit_id] = {CandidateSource.HANDLE if named else CandidateSource.GRAPH}
    for hit in topic.hits:
        entries[hit.entry.unit_id] = hit.entry
        superseded[hit.entry.unit_id] = hit.superseded_by
        found = sources.setdefault(hit.entry.unit_id, set())
        if hit.full_text_score is not None:
            found.add(CandidateSource.FULL_TEXT)
        if hit.vector_score is not None:
            found.add(CandidateSource.VECTOR)
    paths = {hit.entry.unit_id: hit.path for hit in expansion.hits}
    topics = {hit.entry.unit_id: hit for hit in topic.hits}
    return tuple(
        Candidate(
            entry=entry,
            sources=frozenset(sources[unit_id]),
            path=paths.get(unit_id),
            topic_score=fused.get(unit_id, 0.0),
            full_text_score=topics[unit_id].full_text_score if unit_id in topics else None,
            vector_score=topics[unit_id].vector_score if unit_id in topics else None,
            superseded_by=superseded[unit_id],
            unreferenced_count=unreferenced.get(unit_id, 0),
        )
        for unit_id, entry in sorted(entries.items())
    )
