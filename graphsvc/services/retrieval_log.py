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
from graphsvc.ports import LoggedSelection, RetrievalStep, SessionHistory

LOGGED_EDGES = 50
"""Candidates that get a relationship: every selected one, however many; of the others the best ranked, up to this."""

FORMAT = 3


def logged_selections(ranked: Sequence[RankedCandidate]) -> tuple[LoggedSelection, ...]:
    """The candidates that get a relationship, by rank; what was delivered keeps its features, to be learned from."""
    by_interest = sorted(ranked, key=lambda one: (one.disposition is not Disposition.SELECTED, one.rank))
    selected_count = sum(one.disposition is Disposition.SELECTED for one in ranked)
    return tuple(
        LoggedSelection(
            unit_id=one.candidate.entry.unit_id,
            disposition=one.disposition,
            value=one.valuation.value,
            cost=one.cost,
            rank=one.rank,
            hop_count=one.candidate.path.hop_count if one.candidate.path else -1,
            edge_types=one.candidate.path.edge_types if one.candidate.path else (),
            features=tuple(part.scaled for part in one.valuation.contributions)
            if one.disposition is Disposition.SELECTED
            else (),
        )
        for one in sorted(by_interest[: max(LOGGED_EDGES, selected_count)], key=lambda one: one.rank)
    )


def feature_names(ranked: Sequence[RankedCandidate]) -> tuple[str, ...]:
    """What the features of the logged selections are, in order."""
    valued = (one.valuation.contributions for one in ranked if one.valuation.contributions)
    return tuple(part.feature for part in next(valued, ()))


LEFT_FOR_LATER = frozenset({Disposition.DEFERRED, Disposition.OVER_BUDGET, Disposition.BELOW_VALUE})
"""Dispositions that count as deferred (gate B11): the unit could have gone in, and lacked value or room."""

LOWERED_AFTER = 5
"""Steps in a row that a unit is deferred before it loses value in its session for good."""


def deferred_ids(ranked: Sequence[RankedCandidate]) -> tuple[str, ...]:
    """Candidates that were left for a later step, sorted."""
    return tuple(sorted(one.candidate.entry.unit_id for one in ranked if one.disposition in LEFT_FOR_LATER))


def newly_lowered(deferred: Sequence[str], task_step: int, history: SessionHistory) -> tuple[str, ...]:
    """Units that are deferred now for the fifth step in a row and were not lowered before, sorted.

    Retrievals with the same task_step above 0 are one step; in it a unit is deferred when one of them deferred it and
    none selected it. A retrieval without a step is a step of its own.
    """
    streak = set(deferred) - history.lowered
    steps = _steps(task_step, history.steps)
    for earlier in steps[1:LOWERED_AFTER]:
        streak &= earlier
    for one in history.steps:
        if task_step and one.task_step == task_step:
            streak -= one.selected_ids
    return tuple(sorted(streak)) if len(steps) >= LOWERED_AFTER else ()


def _steps(task_step: int, retrievals: Sequence[RetrievalStep]) -> list[set[str]]:
    """Units deferred in each step, this one first (empty: it is known apart)."""
    steps: list[set[str]] = [set()]
    current = task_step
    selected: set[str] = set()
    for one in retrievals:
        if current == 0 or one.task_step != current:
            steps.append(set())
            selected = set()
            current = one.task_step
        selected |= one.selected_ids
        steps[-1] |= one.deferred_ids
        steps[-1] -= selected
    return steps


def candidates_to_json(ranked: Sequence[RankedCandidate]) -> str:
    """Compact JSON of every candidate; :func:`candidates_from_json` gives back the same.

    Neighbourhoods aside: what they add to a value is in its contributions.
    """
    # One predictor valued them all, so the names and weights of the features stand once: half of the text otherwise.
    parts = next((one.valuation.contributions for one in ranked if one.valuation.contributions), ())
    head = [[part.feature, part.weight] for part in parts]
    return json.dumps([FORMAT, head, [_row(one) for one in ranked]], separators=(",", ":"), ensure_ascii=False)


def candidates_from_json(text: str) -> tuple[RankedCandidate, ...]:
    """The candidates as they were ranked."""
    _, head, rows = json.loads(text)
    return tuple(_ranked(row, head) for row in rows)


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
        candidate.term_coverage,
        candidate.lowered,
        candidate.companion_ids,
        one.valuation.value,
        one.valuation.intercept,
        [[part.raw, part.scaled] for part in one.valuation.contributions],
        one.cost,
        one.rank,
        one.disposition.value,
        one.detail,
    ]


def _ranked(row: list[Any], head: list[list[Any]]) -> RankedCandidate:
    entry, sources, path, topic, full_text, vector, successor, unreferenced, coverage, lowered, companions, *rest = row
    value, intercept, parts, cost, rank, disposition, detail = rest
    # A candidate that was not valued has no parts.
    contributions = tuple(
        Contribution(feature, raw, scaled, weight)
        for (feature, weight), (raw, scaled) in zip(head, parts, strict=bool(parts))
    )
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
            term_coverage=coverage,
            lowered=lowered,
            companion_ids=tuple(companions),
        ),
        valuation=Valuation(value, intercept, contributions),
        cost=cost,
        rank=rank,
        disposition=Disposition(disposition),
        detail=detail,
    )
