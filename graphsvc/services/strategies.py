"""Strategies of candidate identification: around a task, about a topic.

Both end in the same list of candidates, each with every source that found it; they differ in what the anchors are.
Source: seed selection-budgeted-retrieval, Candidate identification; gates N6, B2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graphsvc.domain.candidates import (
    NO_NEIGHBOURHOOD,
    Candidate,
    CandidateSource,
    CatalogEntry,
    Outcome,
    TermStatistics,
    TopicHit,
)
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    ContextGraph,
    DescriptionQuery,
    Descriptions,
    Expansion,
    FeedbackStore,
    FoundUnit,
    NeighbourQuery,
    Neighbours,
    ReadOptions,
    RecentQuery,
    SessionHistory,
    TierPromotions,
    TopicQuery,
    TopicResult,
    Traversal,
    Vector,
)
from graphsvc.ranking.fusion import centred, fuse
from graphsvc.services.drafts import RetrievalQuery

AROUND_TASK = "around_task"
ABOUT_TOPIC = "about_topic"

TOPIC_ANCHORS = 3
"""Best topic hits that become the anchors when no task or unit is named (gate B2)."""

TOPIC_HITS = 100
"""Hits by words, and as many by vector: twice as many cost a point of recall on long conversations, and time."""
SEEDS = 20
"""Best topic hits whose edges and turns are followed one step: farther down the list, what is near says little."""
RECENT_UNITS = 20
"""Newest units of the caller's own session that are candidates whatever the query says."""
PROMOTED_UNITS = 50
"""Units promoted by the tiers that are candidates, at most."""

_NO_EXPANSION = Expansion(hits=(), anchor_ids=(), partial=False, blocked_count=0)
_NO_TOPIC = TopicResult(hits=(), usable_terms=False, partial=False, blocked_count=0, visible_scopes=1)
_NO_NEIGHBOURS = Neighbours(units=(), neighbourhoods={})
_NO_DESCRIPTIONS = Descriptions(by_id={}, units=(), companion_ids={})


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
        terms: of the query, by how rare they are among its hits.
        history: what the session's earlier retrievals say.
        withheld: candidates that cannot be delivered, since what they cannot be read without is rejected, by unit_id.
        empty_outcome: what the retrieval's outcome is when there is no candidate.
        missing_handles: named anchors that are absent or not visible.
    """

    candidates: tuple[Candidate, ...]
    terms: TermStatistics
    history: SessionHistory
    withheld: frozenset[str]
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
    promotions: TierPromotions | None = None,
) -> Identified:
    """The candidates for a query: topic hits, what is near them or near the anchors, the session's newest; by unit.

    The topic search runs first, since its best hits are the anchors when none is named, since the traversal measures
    the distance of every topic hit in the same statement, and since neighbours of the best hits are candidates too.

    Raises:
        Unavailable, DeadlineExceeded: the graph does not answer in time.
    """
    notices: list[str] = []
    topic_query = TopicQuery(
        query.text, embedding, min(TOPIC_HITS, limits.max_candidates), query.kinds, fingerprint, query.as_of
    )
    topic, history, recent, promoted = await asyncio.gather(
        _search(graph, principal, topic_query, options),
        feedback.read_session(principal, options),
        graph.list_recent(principal, RecentQuery(RECENT_UNITS, fingerprint, query.as_of), options),
        _promoted(promotions, principal, query.task_id),
    )
    if query.text and not topic.usable_terms:
        notices.append("the query has no searchable word; full-text search was left out")
    if query.text and embedding is None:
        notices.append("the query has no embedding, or the embedder did not answer in time; vector search was left out")
    fused = fuse({hit.entry.unit_id: (hit.full_text_score, hit.vector_score) for hit in topic.hits})
    best = _best_current(topic, fused)
    named = bool(query.task_id or query.anchor_unit_ids)
    expansion, neighbours = await asyncio.gather(
        _expand(
            graph,
            principal,
            query,
            fingerprint,
            fused,
            limits,
            options,
            query.anchor_unit_ids if named else best[:TOPIC_ANCHORS],
            task=named,
        ),
        _neighbours(graph, principal, topic_query, topic, best[:SEEDS], options),
    )
    if named and best and not expansion.anchor_ids:
        notices.append("no named anchor is there; the best topic hits are the anchors")
        expansion = await _expand(
            graph, principal, query, fingerprint, fused, limits, options, best[:TOPIC_ANCHORS], task=False
        )
    anchored = named and bool(set(expansion.anchor_ids) & {f"task:{query.task_id}", *query.anchor_unit_ids})
    found = _Found(query)
    found.add_expansion(expansion)
    found.add_hits(topic.hits)
    found.add_units(neighbours.units)
    found.add_entries(recent.result, CandidateSource.SESSION)
    found.add_entries(promoted, CandidateSource.TIER)
    described = await _describe(graph, principal, found, topic_query, topic, options)
    found.add_units(described.units, any_kind=True)
    blocked = topic.blocked_count + expansion.blocked_count + neighbours.blocked_count
    return Identified(
        candidates=found.candidates(expansion, neighbours, described, history.result),
        terms=topic.statistics,
        history=history.result,
        withheld=frozenset(
            unit_id for unit_id, needed in described.companion_ids.items() if described.blocked_ids & set(needed)
        ),
        strategy=AROUND_TASK if anchored else ABOUT_TOPIC,
        anchor_ids=expansion.anchor_ids,
        missing_handles=tuple(sorted(set(query.anchor_unit_ids) - set(expansion.anchor_ids))) if named else (),
        partial=topic.partial or expansion.partial,
        empty_outcome=_empty_outcome(topic, blocked),
        notices=tuple(notices),
    )


async def _search(graph: ContextGraph, principal: Principal, query: TopicQuery, options: ReadOptions) -> TopicResult:
    return (await graph.search(principal, query, options)).result if query.text else _NO_TOPIC


async def _promoted(promotions: TierPromotions | None, principal: Principal, task_id: str) -> tuple[CatalogEntry, ...]:
    return await promotions.list_promotable(principal, task_id, PROMOTED_UNITS) if promotions else ()


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
    task: bool,
) -> Expansion:
    task_ids = (query.task_id,) if task and query.task_id else ()
    if not task_ids and not unit_ids:
        return _NO_EXPANSION
    traversal = Traversal(
        task_ids=task_ids,
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


async def _neighbours(
    graph: ContextGraph,
    principal: Principal,
    topic_query: TopicQuery,
    topic: TopicResult,
    seed_ids: tuple[str, ...],
    options: ReadOptions,
) -> Neighbours:
    if not seed_ids:
        return _NO_NEIGHBOURS
    query = NeighbourQuery(
        seed_ids=seed_ids,
        candidate_ids=tuple(hit.entry.unit_id for hit in topic.hits),
        kinds=topic_query.kinds,
        fingerprint=topic_query.fingerprint,
        as_of=topic_query.as_of,
    )
    return (await graph.neighbours(principal, query, options)).result


async def _describe(
    graph: ContextGraph,
    principal: Principal,
    found: _Found,
    topic_query: TopicQuery,
    topic: TopicResult,
    options: ReadOptions,
) -> Descriptions:
    if not found.entries:
        return _NO_DESCRIPTIONS
    embedding = topic_query.embedding
    query = DescriptionQuery(
        candidate_ids=tuple(sorted(found.entries)),
        statistics=topic.statistics,
        embedding=None if embedding is None else centred(embedding, topic.sample),
        fingerprint=topic_query.fingerprint,
        as_of=topic_query.as_of,
    )
    return (await graph.describe(principal, query, options)).result


def _best_current(topic: TopicResult, fused: Mapping[str, float]) -> tuple[str, ...]:
    current = [hit.entry.unit_id for hit in topic.hits if not hit.superseded_by]
    return tuple(sorted(current, key=lambda unit_id: (-fused[unit_id], unit_id)))


def _empty_outcome(topic: TopicResult, blocked: int) -> Outcome:
    if topic.visible_scopes == 0:
        return Outcome.NOTHING_PERMITTED
    return Outcome.ALL_BLOCKED if blocked else Outcome.NOTHING_MATCHED


class _Found:
    """What was found so far, by unit, with every source that found it."""

    def __init__(self, query: RetrievalQuery) -> None:
        self._query = query
        self.entries: dict[str, CatalogEntry] = {}
        self._superseded: dict[str, str] = {}
        self._sources: dict[str, set[CandidateSource]] = {}

    def add_expansion(self, expansion: Expansion) -> None:
        for hit in expansion.hits:
            named = hit.entry.unit_id in self._query.anchor_unit_ids
            self._superseded[hit.entry.unit_id] = hit.superseded_by
            self.add_entries([hit.entry], CandidateSource.HANDLE if named else CandidateSource.GRAPH)

    def add_hits(self, hits: Iterable[TopicHit]) -> None:
        for hit in hits:
            sources: list[CandidateSource] = []
            if hit.full_text_score is not None:
                sources.append(CandidateSource.FULL_TEXT)
            if hit.vector_score is not None:
                sources.append(CandidateSource.VECTOR)
            self._superseded[hit.entry.unit_id] = hit.superseded_by
            self.add_entries([hit.entry], *sources)

    def add_units(self, units: Iterable[FoundUnit], *, any_kind: bool = False) -> None:
        for unit in units:
            self._superseded[unit.entry.unit_id] = unit.superseded_by
            self.add_entries([unit.entry], CandidateSource.GRAPH, any_kind=any_kind)

    def add_entries(self, entries: Iterable[CatalogEntry], *sources: CandidateSource, any_kind: bool = False) -> None:
        for entry in entries:
            if any_kind or not self._query.kinds or entry.kind in self._query.kinds:
                self.entries[entry.unit_id] = entry
                self._sources.setdefault(entry.unit_id, set()).update(sources)

    def candidates(
        self, expansion: Expansion, neighbours: Neighbours, described: Descriptions, history: SessionHistory
    ) -> tuple[Candidate, ...]:
        """The candidates by unit_id."""
        for unit_id in neighbours.neighbourhoods.keys() & self.entries.keys():
            self._sources[unit_id].add(CandidateSource.GRAPH)
        # A unit deleted between two statements is no candidate.
        entries = {unit_id: entry for unit_id, entry in self.entries.items() if unit_id in described.by_id}
        texts = described.by_id
        topic_scores = fuse({i: (texts[i].full_text_score, texts[i].vector_score) for i in entries})
        paths = {hit.entry.unit_id: hit.path for hit in expansion.hits}
        return tuple(
            Candidate(
                entry=entry,
                sources=frozenset(self._sources[unit_id]),
                path=paths.get(unit_id),
                topic_score=topic_scores[unit_id],
                full_text_score=texts[unit_id].full_text_score,
                vector_score=texts[unit_id].vector_score,
                superseded_by=self._superseded.get(unit_id, ""),
                unreferenced_count=history.unreferenced.get(unit_id, 0),
                neighbourhood=neighbours.neighbourhoods.get(unit_id, NO_NEIGHBOURHOOD),
                term_coverage=texts[unit_id].term_coverage,
                lead=texts[unit_id].lead,
                lowered=unit_id in history.lowered,
                companion_ids=tuple(i for i in described.companion_ids.get(unit_id, ()) if i in entries),
            )
            for unit_id, entry in sorted(entries.items())
        )
