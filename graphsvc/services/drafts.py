"""What callers hand to the use cases and what they get back: domain types, no proto.

The server builds drafts from messages after checking their form; the use cases check content, price, embed and store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from graphsvc.domain.budget import Ledger
from graphsvc.domain.candidates import Outcome, RankedCandidate
from graphsvc.domain.units import ContextUnit, ContextUnitKind, Direction, EdgeType, EpistemicStatus, ToolCall


@dataclass(frozen=True, slots=True)
class RelationDraft:
    """A typed edge whose target is an id, or a key in the writer's own agent and session; exactly one is set."""

    edge_type: EdgeType
    target_id: str = ""
    target_key: str = ""
    role: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class UnitDraft:
    """A unit as the writer gives it.

    Attributes:
        unit_key: never empty here; the server derives one from the request_id and the place in the batch.
        timestamp: None: now.
        embedding: the writer's own vector, or None.
    """

    unit_key: str
    kind: ContextUnitKind
    content: str
    timestamp: datetime | None = None
    task_step: int = 0
    task_id: str = ""
    epistemic_status: EpistemicStatus = EpistemicStatus.TENTATIVE
    provenance: tuple[str, ...] = ()
    relations: tuple[RelationDraft, ...] = ()
    path: str = ""
    model: str = ""
    pinned: bool = False
    tool_call: ToolCall | None = None
    vendor_state: bytes = b""
    embedding: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge to add or remove, from one of the caller's own units."""

    source_id: str
    relation: RelationDraft


@dataclass(frozen=True, slots=True)
class BudgetDraft:
    """Exactly one of the two budgets is set; None elsewhere means unset.

    Attributes:
        harness_texts: what the caller sends besides, counted and added to harness_overhead.
        expected_steps: 0: nothing is projected.
    """

    total_step_budget: int | None = None
    retrieval_budget: int | None = None
    harness_overhead: int = 0
    reasoning_reserve_ratio: float | None = None
    harness_texts: tuple[str, ...] = ()
    expected_steps: int = 0
    session_tokens_remaining: int = 0


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """What to retrieve (RetrieveRequest, checked in form). The session and model are the principal's."""

    text: str
    budget: BudgetDraft
    task_step: int = 0
    task_id: str = ""
    anchor_unit_ids: tuple[str, ...] = ()
    directions: dict[EdgeType, Direction] = field(default_factory=dict[EdgeType, Direction])
    wanted: frozenset[EdgeType] = frozenset()
    max_hops: int = 3
    kinds: frozenset[ContextUnitKind] = frozenset()
    as_of: datetime | None = None
    embedding: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class RetrievalAnswer:
    """What a retrieval decided. ``candidates`` holds all of them by rank; ``units`` the selected, in payload order."""

    retrieval_id: str
    outcome: Outcome
    outcome_detail: str
    payload: str
    units: tuple[ContextUnit, ...]
    candidates: tuple[RankedCandidate, ...]
    ledger: Ledger
    strategy: str
    anchor_ids: tuple[str, ...]
    partial: bool
    encoding: str
    query_fingerprint: str
    duration_ms: float
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedRetrieval:
    """A retrieval read back from the graph."""

    retrieval_id: str
    query_text: str
    query_fingerprint: str
    task_id: str
    task_step: int
    created_time: datetime
    strategy: str
    outcome: Outcome
    ledger: Ledger
    partial: bool
    candidates: tuple[RankedCandidate, ...]
    duration_ms: float
