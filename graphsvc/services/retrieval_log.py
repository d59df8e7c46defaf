"""How a retrieval's candidates are kept on its (:Retrieval) node: compact JSON, read back exactly.

The ledger, and value, cost and rank of the candidates with an edge, are properties of their own, for Cypher; the JSON
holds the whole of it, for explain.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from graphsvc.domain.candidates import (
    Candidate,
    CandidateSource,
    CatalogEntry,
    Contribution,
    Disposition,
    GraphPath,
    RankedCandidate,
    Valuation,
)
from graphsvc.domain.units import ContextUnitKind, EdgeType, EpistemicStatus, Tier

LOGGED_EDGES = 50
"""Candidates that get a SELECTED or DEFERRED relationship: every selected one, then the best ranked of the others."""

FORMAT = 1


def logged_selections(ranked: Sequence[RankedCandidate]) -> tuple[tuple[str, Disposition, float, int, int], ...]:
    """(unit_id, disposition, value, cost, rank) of the candidates that get a relationship, by rank."""
    by_interest = sorted(ranked, key=lambda one: (one.disposition is not Disposition.SELECTED, one.rank))
    return tuple(
        (one.candidate.entry.unit_id, one.disposition, one.valuation.value, one.cost, one.rank)
        for one in sorted(by_interest[:LOGGED_EDGES], key=lambda one: one.rank)
    )


def candidates_to_json(ranked: Sequence[RankedCandidate]) -> str:
    """Compact JSON of every candidate; :func:`candidates_from_json` gives back the same."""
    return json.dumps([FORMAT, [_row(one) for one in ranked]], separators=(",", ":"), ensure_ascii=False)


def candidates_from_json(text: str) -> tuple[RankedCandidate, ...]:
    """The candidates as they were ranked."""
    _, rows = json.loads(text)
    return tuple(_ranked(row) for row in rows)


def _row(one: RankedCandidate) -> list[Any]:
    candidate, entry, path = one.candidate, one.candidate.entry, one.candidate.path
    return [
        [
            entry.unit_id,
            entry.unit_key,
            entry.agent_id,
            entry.session_id,
            entry.task_step,
            entry.kind.value,
            entry.epistemic_status.value,
            entry.timestamp.isoformat(),
            entry.created_time.isoformat(),
            entry.path,
            entry.model,
            entry.tier.value,
            entry.relevance_score,
            entry.pinned,
            entry.content_sha256,
            entry.size_bytes,
            entry.token_counts,
        ],
        sorted(source.value for source in candidate.sources),
        [path.hop_count, [e.value for e in path.edge_types], list(path.unit_ids), path.match_count] if path else None,
        candidate.topic_score,
        candidate.full_text_score,
        candidate.vector_score,
        candidate.superseded_by,
        candidate.unreferenced_count,
        one.valuation.value,
        one.valuation.intercept,
        [[c.feature, c.raw, c.scaled, c.weight] for c in one.valuation.contributions],
        one.cost,
        one.rank,
        one.disposition.value,
        one.detail,
    ]


def _ranked(row: list[Any]) -> RankedCandidate:
    entry, sources, path, topic, full_text, vector, successor, unreferenced, value, intercept, parts, *rest = row
    cost, rank, disposition, detail = rest
    return RankedCandidate(
        candidate=Candidate(
            entry=CatalogEntry(
                unit_id=entry[0],
                unit_key=entry[1],
                agent_id=entry[2],
                session_id=entry[3],
                task_step=entry[4],
                kind=ContextUnitKind(entry[5]),
                epistemic_status=EpistemicStatus(entry[6]),
                timestamp=datetime.fromisoformat(entry[7]),
                created_time=datetime.fromisoformat(entry[8]),
                path=entry[9],
                model=entry[10],
                tier=Tier(entry[11]),
                relevance_score=entry[12],
                pinned=entry[13],
                content_sha256=entry[14],
                size_bytes=entry[15],
                token_counts=entry[16],
            ),
            sources=frozenset(CandidateSource(source) for source in sources),
            path=GraphPath(path[0], tuple(EdgeType(e) for e in path[1]), tuple(path[2]), path[3]) if path else None,
            topic_score=topic,
            full_text_score=full_text,
            vector_score=vector,
            superseded_by=successor,
            unreferenced_count=unreferenced,
        ),
        valuation=Valuation(value, intercept, tuple(Contribution(*part) for part in parts)),
        cost=cost,
        rank=rank,
        disposition=Disposition(disposition),
        detail=detail,
    )
