"""What the services need from the outside, as Protocols; ``graph``, ``tiers``, ``adapters`` and ``app`` provide them.

Every method takes the principal (or a tenant) first; an implementation answers nothing that this principal may not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphsvc.domain.budget import Ledger
from graphsvc.domain.candidates import (
    NO_TERMS,
    CatalogEntry,
    Disposition,
    GraphHit,
    Neighbourhood,
    Outcome,
    TermStatistics,
    TopicHit,
)
from graphsvc.domain.outcomes import UnitOutcome
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Policy, Principal, Role
from graphsvc.domain.units import ContextUnit, ContextUnitKind, Direction, EdgeType, Relation, Tier

Vector = NDArray[np.float32]
T = TypeVar("T")


class Clock(Protocol):
    """Time, injected so that answers are deterministic."""

    def now(self) -> datetime:
        """The current time, aware, in UTC, microsecond precision."""
        ...


class TokenCounter(Protocol):
    """Counts tokens exactly as a model's tokenizer does; thread-safe."""

    def encoding_for(self, model: str) -> str:
        """The encoding's name ("o200k_base", "cl100k_base") for a model id; the default for an empty one.

        Raises:
            InvalidArgument: MODEL_UNKNOWN when no encoding is known for it.
        """
        ...

    def count(self, text: str, encoding: str) -> int:
        """Tokens of the text, special tokens being plain text."""
        ...

    def counts(self, text: str) -> dict[str, int]:
        """Tokens of the text in every encoding the service prices with."""
        ...


class Embedder(Protocol):
    """Turns texts into unit-length vectors."""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when there are no embeddings."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One unit-length vector of ``dimensions`` numbers a text, in order; None for a text without a known word.

        Raises:
            Unavailable: EMBEDDER_UNAVAILABLE when an endpoint does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """A unit to be rendered: what an adapter may use of it."""

    unit_id: str
    kind: ContextUnitKind
    content: str
    relevance: float
    """Order key in [0, 1]: value of the candidate."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered payload and its true size."""

    text: str
    token_count: int
    encoding: str
    unit_count: int


class VendorAdapter(Protocol):
    """Renders units for one vendor's request format. Found through the entry-point group ``graphsvc.adapters``."""

    name: str

    def block_overhead(self, unit_id: str, encoding: str, counter: TokenCounter) -> int:
        """Tokens that a unit costs besides its content: citation line and format; exact and additive."""
        ...

    def envelope_overhead(self, encoding: str, counter: TokenCounter) -> int:
        """Tokens of the payload with no unit in it."""
        ...

    def render(self, blocks: Sequence[Block], encoding: str, counter: TokenCounter) -> Rendering:
        """The payload, counted as rendered; blocks keep the given order."""
        ...


@dataclass(frozen=True, slots=True)
class NewUnit:
    """A unit ready to be stored: checked, priced, embedded. ``relations`` are resolved to unit ids."""

    unit: ContextUnit
    embedding: Vector | None
    search_terms: str
    """What full-text search indexes besides the excerpt: split identifiers, path, key phrases; accents folded."""
    key_phrases: tuple[str, ...]
    term_frequencies: str
    """How often each stem stands in the excerpt and path (``ranking.lexical``), for scoring."""


class WriteStatus(StrEnum):
    """Whether a write changed anything."""

    CREATED = "created"
    EXISTING = "existing"


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of one unit of a put, in request order."""

    unit_id: str
    status: WriteStatus


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """The result of a write and the revision that contains it.

    Attributes:
        bookmarks: opaque Neo4j bookmarks; the server wraps them in a revision token.
        replayed: True when this request_id had been carried out before and its first result is returned.
    """

    result: T
    bookmarks: tuple[str, ...]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The result of a read and the revision it saw."""

    result: T
    bookmarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Identity of a write: the same request_id of the same agent again changes nothing.

    Attributes:
        request_id: caller's, 1 to 128 characters.
        fingerprint: sha256 of the request's canonical bytes; another under the same id is REQUEST_ID_REUSED.
        timeout_ms: what is left of the caller's deadline, at most the write timeout.
    """

    request_id: str
    fingerprint: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    Attributes:
        bookmarks: revisions the read must see; empty: whatever the server has.
        timeout_ms: server-side limit of the statement.
    """

    bookmarks: tuple[str, ...] = ()
    timeout_ms: int = 5000


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """A unit's catalog entry with relations, as get and list return it; content is fetched from the tiers by digest."""

    unit: ContextUnit
    """content is empty here."""
    superseded_by: str = ""


@dataclass(frozen=True, slots=True)
class UnitFilter:
    """What list returns: every set field must match.

    Attributes:
        own_only: units of the principal's own agent and session only.
        current_only: leave out superseded ones.
        path_prefix: units whose path begins with it.
    """

    kinds: frozenset[ContextUnitKind] = frozenset()
    agent_id: str = ""
    session_id: str = ""
    task_id: str = ""
    path_prefix: str = ""
    own_only: bool = False
    current_only: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed edge to write or remove."""

    source_id: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Traversal:
    """How the graph is walked from the anchors.

    Attributes:
        task_ids: tasks whose units are at distance 1.
        unit_ids: units that are anchors themselves; the visible ones are hits with hop_count 0.
        directions: edge types that may be followed and which way, seen from the anchor; empty: all four, both ways.
        wanted: edge types that count as a match; empty: those that may be followed.
        max_hops: 1 to 4.
        limit: nearest units returned at most.
        candidate_ids: units (topic hits) whose distance is wanted although they are not among the nearest.
        fingerprint: of the query; what it rejects is left out.
        as_of: time in the past whose graph is walked (unit timestamps); None: the current one.
    """

    task_ids: tuple[str, ...] = ()
    unit_ids: tuple[str, ...] = ()
    directions: Mapping[EdgeType, Direction] = field(default_factory=dict[EdgeType, Direction])
    wanted: frozenset[EdgeType] = frozenset()
    max_hops: int = 3
    limit: int = 200
    candidate_ids: tuple[str, ...] = ()
    fingerprint: str = ""
    as_of: datetime | None = None
    hub_degree_cap: int = 500
    scan_limit: int = 5000


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a traversal found.

    Attributes:
        hits: by hop_count, match_count descending, unit_id; the nearest ``limit`` and every reached candidate.
        anchor_ids: the anchors that are visible, sorted ("task:ID" for tasks, visible when one of their units is).
        partial: a scan limit cut the search, so farther units or shorter paths may be missing.
        blocked_count: reached units left out because the query rejects them.
    """

    hits: tuple[GraphHit, ...]
    anchor_ids: tuple[str, ...]
    partial: bool
    blocked_count: int


@dataclass(frozen=True, slots=True)
class TopicQuery:
    """A topic search.

    Attributes:
        text: the query as the user wrote it; it never reaches Lucene unescaped.
        embedding: unit-length vector, or None for full-text only.
        limit: hits per index at most.
    """

    text: str
    embedding: Vector | None
    limit: int = 100
    kinds: frozenset[ContextUnitKind] = frozenset()
    fingerprint: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What a topic search found: hits by unit_id; ``usable_terms`` is False when the text has no searchable term."""

    hits: tuple[TopicHit, ...]
    usable_terms: bool
    partial: bool
    blocked_count: int
    visible_scopes: int
    """0: nothing is permitted, no scope (own session, policies) holds a unit; 1 or more: there is something to see."""
    statistics: TermStatistics = NO_TERMS
    """Of the query's terms among the hits."""
    sample: tuple[Vector, ...] = ()
    """Vectors of the best hits by vector, at most 50."""


class UnitStore(Protocol):
    """The catalog: units and typed edges, written and read by id."""

    async def put_units(
        self, principal: Principal, units: Sequence[NewUnit], request: WriteRequest
    ) -> Written[tuple[PutResult, ...]]:
        """Stores the catalog entries and edges of all units, or of none.

        Raises:
            NotFound: UNIT_NOT_FOUND, a relation's target is absent or not visible.
            AlreadyExists: UNIT_DIFFERS, the key names a unit with other content or fields.
            InvalidArgument: REQUEST_ID_REUSED.
            FailedPrecondition: SUPERSESSION_ORDER.
        """
        ...

    async def get_units(
        self, principal: Principal, unit_ids: Sequence[str], options: ReadOptions
    ) -> Read[tuple[StoredUnit, ...]]:
        """The visible ones of these units, in the given order; absent and invisible ones are left out."""
        ...

    async def list_units(
        self,
        principal: Principal,
        where: UnitFilter,
        after: tuple[datetime, str] | None,
        limit: int,
        options: ReadOptions,
    ) -> Read[tuple[StoredUnit, ...]]:
        """Visible units by created_time, then unit_id, after the given position, at most ``limit``."""
        ...

    async def delete_units(
        self, principal: Principal, unit_ids: Sequence[str], request: WriteRequest
    ) -> Written[tuple[tuple[str, str], ...]]:
        """Removes own units with their edges; returns (unit_id, content_sha256) of those removed.

        A chain of supersession is closed over the gap. Units that are absent, or not the principal's own, are left out.
        """
        ...

    async def link(
        self, principal: Principal, edges: Sequence[Edge], request: WriteRequest
    ) -> Written[tuple[WriteStatus, ...]]:
        """Adds typed edges from own units to visible units; an edge that is there already is EXISTING.

        Raises: as put_units.
        """
        ...

    async def unlink(self, principal: Principal, edges: Sequence[Edge], request: WriteRequest) -> Written[int]:
        """Removes typed edges from own units (source, target, type and role match); returns how many there were."""
        ...

    async def existing_content(self, tenant_id: str, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Which of these (unit_id, content_sha256) have a catalog entry: for the reconciler."""
        ...


@dataclass(frozen=True, slots=True)
class NeighbourQuery:
    """Which neighbours of the best topic hits are wanted.

    Attributes:
        seed_ids: best topic hits, 0 to 64 units.
        candidate_ids: units known already, which are not returned again.
        edge_limit: edges read of one seed at most; a seed with more is a hub and gives no link.
        kinds: of neighbours that become candidates; empty: all.
    """

    seed_ids: tuple[str, ...]
    candidate_ids: tuple[str, ...]
    edge_limit: int = 200
    kinds: frozenset[ContextUnitKind] = frozenset()
    fingerprint: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundUnit:
    """A visible unit that no search found.

    Attributes:
        superseded_by: unit_id of a visible successor; empty: current.
    """

    entry: CatalogEntry
    superseded_by: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What stands around the seeds.

    Attributes:
        units: units linked to seeds or next to them in turn order that were not known, by unit_id.
        neighbourhoods: of linked units, known ones too, by unit_id.
        blocked_count: units left out because the query rejects them.
    """

    units: tuple[FoundUnit, ...]
    neighbourhoods: Mapping[str, Neighbourhood]
    blocked_count: int = 0


@dataclass(frozen=True, slots=True)
class DescriptionQuery:
    """Which candidates are to be described.

    Attributes:
        candidate_ids: units that the principal was found to see.
        statistics: of the topic search, for the scores by words.
        embedding: vector that cosines are taken with, or None.
    """

    candidate_ids: tuple[str, ...]
    statistics: TermStatistics
    embedding: Vector | None
    fingerprint: str = ""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """Words, meaning and start of a candidate, scored alike whichever search or edge found it.

    Attributes:
        full_text_score: BM25 with the given statistics; None without a word in common.
        vector_score: cosine in [-1, 1]; None without vector.
        term_coverage: as in TopicHit.
        lead: start of its excerpt, at most 96 characters.
    """

    full_text_score: float | None
    vector_score: float | None
    term_coverage: float
    lead: str


@dataclass(frozen=True, slots=True)
class Descriptions:
    """What values of candidates rest on besides the graph, and what they cannot be read without.

    Attributes:
        by_id: of each candidate and each unit of ``units``.
        units: companions that are not among the candidates, by unit_id.
        companion_ids: of each candidate and each unit of ``units`` that has some, sorted.
        blocked_ids: companions that the query rejects: who needs one cannot be delivered.
    """

    by_id: Mapping[str, Description]
    units: tuple[FoundUnit, ...]
    companion_ids: Mapping[str, tuple[str, ...]]
    blocked_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RecentQuery:
    """How many of the session's newest units are looked at; what the query rejects is left out."""

    limit: int
    fingerprint: str = ""
    as_of: datetime | None = None


class ContextGraph(Protocol):
    """Distance and topic search over what the principal may see."""

    async def neighbours(self, principal: Principal, query: NeighbourQuery, options: ReadOptions) -> Read[Neighbours]:
        """Units one typed edge or up to two turns away from the seeds, in one statement."""
        ...

    async def describe(self, principal: Principal, query: DescriptionQuery, options: ReadOptions) -> Read[Descriptions]:
        """Scores of all candidates, and the visible units without which they cannot be read.

        These are the other units of a tool call, and a chunk's header.
        """
        ...

    async def expand(self, principal: Principal, traversal: Traversal, options: ReadOptions) -> Read[Expansion]:
        """Nearest visible units from the anchors with fewest hops, path and edge-type match, in one statement."""
        ...

    async def search(self, principal: Principal, query: TopicQuery, options: ReadOptions) -> Read[TopicResult]:
        """Topic hits of both full-text indexes and the vector index, filtered inside the indexes, in one statement."""
        ...

    async def list_recent(
        self, principal: Principal, query: RecentQuery, options: ReadOptions
    ) -> Read[tuple[CatalogEntry, ...]]:
        """The current ones of the principal's own newest units in its session, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedSelection:
    """A candidate as its SELECTED or DEFERRED relationship keeps it.

    Attributes:
        rank: from 1.
        hop_count: -1 when no anchor reaches it.
        edge_types: of the path, from the anchor outwards.
        features: scaled values of the record's ``feature_names``; empty for a candidate that was not valued.
    """

    unit_id: str
    disposition: Disposition
    value: float
    cost: int
    rank: int
    hop_count: int = -1
    edge_types: tuple[EdgeType, ...] = ()
    features: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalRecord:
    """A retrieval as it is written to the graph: everything explain gives back.

    Attributes:
        candidates_json: ranked candidates with every contribution, compact JSON.
        selections: the candidates that have an edge (SELECTED or DEFERRED) to their unit.
        deferred_ids: every candidate that was left for a later step (over budget, below value, deferred).
        lowered_ids: units that were deferred for the fifth step in a row: they lose value in this session for good.
        predictor_version: of the tenant; 0: the shared prior.
        feature_names: of ``Selection.features``, in order.
    """

    retrieval_id: str
    query_text: str
    fingerprint: str
    embedding: Vector | None
    task_id: str
    task_step: int
    strategy: str
    outcome: Outcome
    ledger: Ledger
    partial: bool
    created_time: datetime
    duration_ms: float
    payload_sha256: str
    candidates_json: str
    selections: tuple[LoggedSelection, ...]
    deferred_ids: tuple[str, ...] = ()
    lowered_ids: tuple[str, ...] = ()
    predictor_version: int = 0
    feature_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalLogEntry:
    """What explain reads back."""

    record_json: str
    agent_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class RetrievalStep:
    """What one retrieval of a session left for later and what it delivered."""

    task_step: int
    deferred_ids: frozenset[str]
    selected_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """What the principal's earlier retrievals of the session say about units it may see.

    Attributes:
        unreferenced: times each unit was delivered, unreferenced, in the last 50 retrievals.
        steps: the last 8 retrievals, the newest first.
        lowered: units deferred five steps in a row at some time.
        predictor: the tenant's predictor; None: the shared prior.
    """

    unreferenced: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: tuple[RetrievalStep, ...] = ()
    lowered: frozenset[str] = frozenset()
    predictor: PredictorVersion | None = None


@dataclass(frozen=True, slots=True)
class DeliveredUnit:
    """A unit as a retrieval delivered it; its content is fetched from the tiers by digest."""

    unit_id: str
    content_sha256: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a retrieval delivered, and its outcome where one was reported.

    Attributes:
        units: in payload order (value descending, then unit_id); units deleted meanwhile are left out.
        report_fingerprint: of the report that gave the outcome; empty: none yet.
        outcomes: of that report, in the order of ``units``.
    """

    retrieval_id: str
    query_text: str
    units: tuple[DeliveredUnit, ...]
    report_fingerprint: str
    outcomes: tuple[UnitOutcome, ...]


@dataclass(frozen=True, slots=True)
class PhraseCounts:
    """How common phrases are among the units that the principal may see; all counts end at a limit.

    Attributes:
        unit_count: visible units.
        holders: visible units that hold each phrase, by phrase.
    """

    unit_count: int
    holders: Mapping[str, int]


class EntailmentScorer(Protocol):
    """Optional plug-in (entry-point group ``graphsvc.entailment``): does the output follow from the content?"""

    async def score(self, output: str, contents: Sequence[str]) -> list[float]:
        """The probability in [0, 1] that the output entails or uses each content, in order."""
        ...


class FeedbackStore(Protocol):
    """Retrievals and what was referenced of them."""

    async def record_retrieval(self, principal: Principal, record: RetrievalRecord, timeout_ms: int) -> Written[None]:
        """Writes the (:Retrieval) node with SELECTED and DEFERRED relationships."""
        ...

    async def get_retrieval(
        self, principal: Principal, retrieval_id: str, options: ReadOptions
    ) -> Read[RetrievalRecord]:
        """A retrieval of the principal's own agent and session.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND, absent or somebody else's.
        """
        ...

    async def read_session(self, principal: Principal, options: ReadOptions) -> Read[SessionHistory]:
        """What the principal's retrievals of the session say about units, and the tenant's predictor; one statement."""
        ...

    async def get_delivery(self, principal: Principal, retrieval_id: str, options: ReadOptions) -> Read[Delivery]:
        """What a retrieval of the principal's own agent and session delivered.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND, absent or somebody else's.
        """
        ...

    async def count_phrases(
        self, principal: Principal, phrases: Sequence[str], limit: int, options: ReadOptions
    ) -> Read[PhraseCounts]:
        """How many visible units there are and how many hold each phrase, each counted up to ``limit``.

        Only excerpts are looked at, with words stemmed; normalised phrases are expected (``domain.phrases``).
        """
        ...

    async def record_outcome(
        self,
        principal: Principal,
        retrieval_id: str,
        outcomes: Sequence[UnitOutcome],
        report_fingerprint: str,
        request: WriteRequest,
    ) -> Written[tuple[UnitOutcome, ...]]:
        """Writes REFERENCED and IGNORED relationships of all delivered units, or of none; the first report stands.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND.
            AlreadyExists: OUTCOME_DIFFERS, the retrieval has an outcome from a report with another fingerprint.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as listed: never its secret."""

    key_id: str
    tenant_id: str
    agent_id: str
    roles: frozenset[Role]
    created_time: datetime
    expires_time: datetime | None


@dataclass(frozen=True, slots=True)
class FeedbackExample:
    """A delivered unit with its verdict: what predictors are fitted on.

    Attributes:
        features: scaled values by name, as valued then.
        value: the probability that was predicted.
    """

    retrieval_id: str
    reported_time: datetime
    kind: ContextUnitKind
    features: Mapping[str, float]
    value: float
    referenced: bool


@dataclass(frozen=True, slots=True)
class UnlearnedFeedback:
    """Feedback of a tenant that no predictor has seen.

    Attributes:
        retrieval_count: retrievals reported after the last fit, counted up to a limit.
        oldest_time: when the first of these was reported.
        last_fit_time: None: there was none.
    """

    tenant_id: str
    retrieval_count: int
    oldest_time: datetime
    last_fit_time: datetime | None


@dataclass(frozen=True, slots=True)
class PredictorHistory:
    """The predictors of a tenant.

    Attributes:
        versions: ascending; those not adopted too.
        in_use: version in use; 0: the shared prior.
    """

    versions: tuple[PredictorVersion, ...]
    in_use: int

    @property
    def current(self) -> PredictorVersion | None:
        """The version in use; None: the shared prior."""
        return next((one for one in self.versions if one.version == self.in_use), None)


class PredictorStore(Protocol):
    """Feedback of whole tenants, and their predictors by version. Not for agents: batch and admin only."""

    async def list_unlearned(self, from_tenant_id: str, limit: int, count_limit: int) -> tuple[UnlearnedFeedback, ...]:
        """Tenants that have feedback no predictor has seen, by tenant_id.

        Args:
            from_tenant_id: the first that may be among them; empty: any.
            limit: tenants returned at most.
            count_limit: retrievals of each counted at most.
        """
        ...

    async def get_unlearned(self, tenant_id: str, count_limit: int) -> UnlearnedFeedback | None:
        """A tenant's feedback that no predictor has seen; None: there is none."""
        ...

    async def list_examples(self, tenant_id: str, retrieval_limit: int) -> tuple[FeedbackExample, ...]:
        """Delivered units of the tenant's newest reported retrievals, by (reported_time, retrieval_id, unit_id)."""
        ...

    async def list_predictors(self, tenant_id: str, options: ReadOptions) -> Read[PredictorHistory]:
        """The tenant's versions and which of them is in use."""
        ...

    async def save_predictor(
        self, principal: Principal, predictor: PredictorVersion, in_use_before: int, request: WriteRequest
    ) -> Written[int | None]:
        """The version that the request stands for: stored, in use if adopted; on a replay the one of the first time.

        None, and nothing is written, when another process was first: the version is there, or another is in use now.

        Args:
            principal: of the tenant; a process that recalibrates by itself has no agent.
            predictor: the next version.
            in_use_before: the version in use when the fit began.
            request: identity of the write.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        ...

    async def use_predictor(self, principal: Principal, version: int, request: WriteRequest) -> Written[int]:
        """Makes a version the one in use (0: the shared prior), once per request_id; gives the version in use before.

        Raises:
            NotFound: PREDICTOR_NOT_FOUND, TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        ...


class TenantStore(Protocol):
    """Tenants, agents, keys, sessions, policies."""

    async def create_tenant(self, tenant_id: str) -> WriteStatus:
        """Makes a tenant known; writes to an unknown one are refused."""
        ...

    async def create_key(self, key: ApiKey, secret_sha256: str) -> None:
        """Stores a key's digest and makes its agent known.

        Raises:
            NotFound: TENANT_NOT_FOUND.
        """
        ...

    async def find_key(self, key_id: str) -> tuple[ApiKey, str] | None:
        """The key and its secret's sha256, or None when absent, revoked or expired."""
        ...

    async def list_keys(self, tenant_id: str) -> tuple[ApiKey, ...]:
        """The tenant's keys by created_time."""
        ...

    async def revoke_key(self, tenant_id: str, key_id: str) -> bool:
        """Ends a key at once; False when there is none."""
        ...

    async def create_policy(self, principal: Principal, policy: Policy, request: WriteRequest) -> Written[Policy]:
        """Stores a policy."""
        ...

    async def list_policies(
        self, principal: Principal, after: tuple[datetime, str] | None, limit: int, options: ReadOptions
    ) -> Read[tuple[Policy, ...]]:
        """Policies the principal owns or is a grantee of (an admin: all of the tenant), by created_time, policy_id."""
        ...

    async def delete_policy(self, principal: Principal, policy_id: str, request: WriteRequest) -> Written[bool]:
        """Ends a policy of the principal's own (an admin: any of the tenant).

        Raises:
            NotFound: POLICY_NOT_FOUND.
        """
        ...


@dataclass(frozen=True, slots=True)
class ContentKey:
    """Names one version of a unit's content. Content-addressed, so a losing concurrent write overwrites nothing."""

    tenant_id: str
    unit_id: str
    content_sha256: str


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A content as a tier lists it.

    Attributes:
        stored_time: when it was last put there (aware UTC): a repeated put counts anew.
    """

    key: ContentKey
    stored_time: datetime


class TierPromotions(Protocol):
    """Candidates that the tiers propose for a step: what the prefetch has brought near."""

    async def list_promotable(self, principal: Principal, task_id: str, limit: int) -> tuple[CatalogEntry, ...]:
        """Visible units that were promoted for this task or session, the highest relevance_score first."""
        ...


class TierStore(Protocol):
    """Content in hot (memory), warm (LMDB) and cold (S3) storage, with the outbox between warm and cold."""

    async def put(self, contents: Mapping[ContentKey, bytes]) -> None:
        """Returns when every content is synced in LMDB with an outbox entry, all or none.

        With write_acknowledgement=cold, when S3 has them too.

        Raises:
            ResourceExhausted: STORAGE_FULL, disk or map full; nothing was written.
            Unavailable: COLD_STORE_UNAVAILABLE, S3 does not answer and the setting waits for it.
        """
        ...

    async def get(self, keys: Sequence[ContentKey]) -> dict[ContentKey, bytes]:
        """The contents, fastest tier first, digests checked.

        Raises:
            Unavailable: CONTENT_PENDING, in no tier that this process reaches (another has not drained its outbox).
            Unavailable: COLD_STORE_UNAVAILABLE.
            DataLoss: CONTENT_CORRUPT.
        """
        ...

    async def delete(self, keys: Sequence[ContentKey]) -> None:
        """Removes from hot and warm now, and from cold through the outbox; durable when it returns."""
        ...

    async def list_keys(
        self, tier: Literal[Tier.WARM, Tier.COLD], after: ContentKey | None, limit: int
    ) -> tuple[StoredContent, ...]:
        """What a tier holds after the given key in the tier's own order, at most ``limit`` (1 to 1000); empty: the end.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE.
        """
        ...

    async def delete_stored_before(self, keys: Sequence[ContentKey], cutoff: datetime) -> int:
        """As delete, but spares what was put at or after ``cutoff``; returns how many were not spared.

        A put that comes between the caller's decision and this call therefore wins.
        """
        ...
