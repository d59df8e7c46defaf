"""Candidates of a retrieval: what the graph and the search found, what it is worth and what became of it.

Source: seed selection-budgeted-retrieval, The Pattern; product.md, What must be true of every answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType, EpistemicStatus, Tier


class CandidateSource(StrEnum):
    """Where a candidate came from; one may have several."""

    GRAPH = "graph"
    FULL_TEXT = "full_text"
    VECTOR = "vector"
    SESSION = "session"
    HANDLE = "handle"
    TIER = "tier"


class Disposition(StrEnum):
    """What became of a candidate: selected, or the one reason why it was not delivered."""

    SELECTED = "selected"
    OVER_BUDGET = "over_budget"
    """Does not fit what is left of the budget."""
    BELOW_VALUE = "below_value"
    """Its probability of being referenced is under MIN_VALUE_PROBABILITY."""
    BLOCKED = "blocked"
    SUPERSEDED = "superseded"
    NOT_PERMITTED = "not_permitted"
    """A handle the caller named that is absent or not visible: the two are never told apart."""
    DUPLICATE = "duplicate"
    """Same content as a candidate that ranks higher."""
    DEFERRED = "deferred"
    """Left for a later step: nothing was retrieved, or the ranking limit cut it."""


class Outcome(StrEnum):
    """How a retrieval ended; the empty ones differ (product.md, 7)."""

    SELECTED = "selected"
    BUDGET_TOO_SMALL = "budget_too_small"
    """retrieval_budget under MIN_RETRIEVAL_BUDGET: insufficient budget."""
    NOTHING_MATCHED = "nothing_matched"
    NOTHING_PERMITTED = "nothing_permitted"
    """The principal can see no unit at all: no own unit in the session and no policy."""
    ALL_BLOCKED = "all_blocked"
    BELOW_THRESHOLD = "below_threshold"
    """No candidate above MIN_VALUE_THRESHOLD: no candidates above value threshold."""
    NOTHING_FITS = "nothing_fits"
    """Every candidate is larger than the budget."""


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A shortest path from an anchor to a candidate.

    Attributes:
        hop_count: number of edges, 1 or more (0 for the anchor itself).
        edge_types: hop_count types, from the anchor outwards.
        unit_ids: hop_count + 1 ids (the anchor first); an anchor that is a task is "task:" + task_id.
        match_count: edges of the path whose type is wanted.
    """

    hop_count: int
    edge_types: tuple[EdgeType, ...]
    unit_ids: tuple[str, ...]
    match_count: int

    @property
    def edge_type_match(self) -> float:
        """Share of the path's edges whose type is wanted, in [0, 1]; 1 for the anchor itself."""
        return self.match_count / self.hop_count if self.hop_count else 1.0


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What the graph keeps of a unit, as the retrieval statements return it (no content)."""

    unit_id: str
    unit_key: str
    agent_id: str
    session_id: str
    task_step: int
    kind: ContextUnitKind
    epistemic_status: EpistemicStatus
    timestamp: datetime
    created_time: datetime
    path: str
    model: str
    tier: Tier
    relevance_score: float
    pinned: bool
    content_sha256: str
    size_bytes: int
    token_counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class GraphHit:
    """A unit reached from an anchor."""

    entry: CatalogEntry
    path: GraphPath
    superseded_by: str
    """unit_id of a visible successor; empty: current."""


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """What a query's terms weigh among its hits, so that units found later are scored as the hits were.

    Attributes:
        weights: inverse document frequency of each stem of the query, above 0.
        average_length: stems a hit has, 1 or more.
    """

    weights: Mapping[str, float]
    average_length: float


NO_TERMS = TermStatistics({}, 1.0)


@dataclass(frozen=True, slots=True)
class TopicHit:
    """A unit found by topic search. Raw scores; None where that search did not find it."""

    entry: CatalogEntry
    full_text_score: float | None
    """BM25 over the visible hits of the query (``ranking.lexical``), 0 or more, comparable within one query only."""
    vector_score: float | None
    """Cosine similarity in [-1, 1]."""
    superseded_by: str
    term_coverage: float = 0.0
    """Share of the query's terms, weighed by rarity, that its excerpt or path holds, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class SeedLink:
    """A typed edge between a candidate and one of the best topic hits (a seed).

    Attributes:
        seed_id: the seed's unit_id; never the candidate's own.
        edge_type: of the edge.
        direction: OUTGOING: from the seed to the candidate; INCOMING: from the candidate to the seed.
        weight: of the edge, in [0, 1].
    """

    seed_id: str
    edge_type: EdgeType
    direction: Direction
    weight: float


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What stands around a candidate, as far as the best topic hits of the query (seeds) are there.

    Attributes:
        links: typed edges to seeds, by (seed_id, edge_type, direction).
        turns: (seed_id, steps from the seed to the candidate: -2, -1, 1 or 2) for seeds of the same agent and session
            near in turn order (task_step), by seed_id.
        in_degree: visible typed edges that lead to the candidate, counted up to a limit; 0 where it has no link.
    """

    links: tuple[SeedLink, ...] = ()
    turns: tuple[tuple[str, int], ...] = ()
    in_degree: int = 0


NO_NEIGHBOURHOOD = Neighbourhood()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that may be selected, with all that is known about it.

    Attributes:
        path: None when no anchor reaches it within max_hops.
        topic_score: fused full-text and vector score in [0, 1]; 0 with neither words nor meaning in common.
        full_text_score: BM25 with the statistics of the query's hits; None without a word in common.
        vector_score: cosine of the unit and the query, seen from near the middle of the hits; None without vector.
        lead: start of its excerpt.
        unreferenced_count: times delivered before in the principal's session without being referenced.
        neighbourhood: typed edges and turns between it and the best topic hits.
        term_coverage: share of the query's terms, weighed by rarity, that its excerpt or path holds, in [0, 1].
        lowered: it was deferred five steps in a row in this session (gate B11).
        companion_ids: candidates without which it cannot be read (a tool call of its result, a chunk's header); they
            go in with it or not at all.
    """

    entry: CatalogEntry
    sources: frozenset[CandidateSource]
    path: GraphPath | None
    topic_score: float
    full_text_score: float | None
    vector_score: float | None
    superseded_by: str = ""
    unreferenced_count: int = 0
    neighbourhood: Neighbourhood = NO_NEIGHBOURHOOD
    term_coverage: float = 0.0
    lead: str = ""
    lowered: bool = False
    companion_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contribution:
    """One feature's part in a value: logit contribution = weight * scaled."""

    feature: str
    raw: float
    scaled: float
    weight: float

    @property
    def logit(self) -> float:
        """What the feature adds to the logit of the value."""
        return self.weight * self.scaled


@dataclass(frozen=True, slots=True)
class Valuation:
    """A candidate's value: the probability of being referenced, in [0, 1], and where it comes from."""

    value: float
    intercept: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with value, cost, rank and what became of it.

    Attributes:
        cost: tokens of its block as rendered.
        rank: from 1, by value / cost descending, then unit_id.
    """

    candidate: Candidate
    valuation: Valuation
    cost: int
    rank: int
    disposition: Disposition
    detail: str
    """One sentence for a person: why."""

    @property
    def value_cost_ratio(self) -> float:
        """Value per token."""
        return self.valuation.value / self.cost if self.cost else 0.0
