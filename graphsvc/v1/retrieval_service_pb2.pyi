import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from graphsvc.v1 import core_pb2 as _core_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RetrievalOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETRIEVAL_OUTCOME_UNSPECIFIED: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_SELECTED: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_BUDGET_TOO_SMALL: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_NOTHING_MATCHED: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_NOTHING_PERMITTED: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_ALL_BLOCKED: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_BELOW_THRESHOLD: _ClassVar[RetrievalOutcome]
    RETRIEVAL_OUTCOME_NOTHING_FITS: _ClassVar[RetrievalOutcome]

class Disposition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISPOSITION_UNSPECIFIED: _ClassVar[Disposition]
    DISPOSITION_SELECTED: _ClassVar[Disposition]
    DISPOSITION_OVER_BUDGET: _ClassVar[Disposition]
    DISPOSITION_BELOW_VALUE: _ClassVar[Disposition]
    DISPOSITION_BLOCKED: _ClassVar[Disposition]
    DISPOSITION_SUPERSEDED: _ClassVar[Disposition]
    DISPOSITION_NOT_PERMITTED: _ClassVar[Disposition]
    DISPOSITION_DUPLICATE: _ClassVar[Disposition]
    DISPOSITION_DEFERRED: _ClassVar[Disposition]

class CandidateSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANDIDATE_SOURCE_UNSPECIFIED: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_GRAPH: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_FULL_TEXT: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_VECTOR: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_SESSION: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_HANDLE: _ClassVar[CandidateSource]
    CANDIDATE_SOURCE_TIER: _ClassVar[CandidateSource]

class ReferenceMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFERENCE_METHOD_UNSPECIFIED: _ClassVar[ReferenceMethod]
    REFERENCE_METHOD_CITATION: _ClassVar[ReferenceMethod]
    REFERENCE_METHOD_KEY_PHRASES: _ClassVar[ReferenceMethod]
    REFERENCE_METHOD_ENTAILMENT: _ClassVar[ReferenceMethod]
    REFERENCE_METHOD_CALLER_CITED: _ClassVar[ReferenceMethod]
    REFERENCE_METHOD_DECISION_IMPACT: _ClassVar[ReferenceMethod]
RETRIEVAL_OUTCOME_UNSPECIFIED: RetrievalOutcome
RETRIEVAL_OUTCOME_SELECTED: RetrievalOutcome
RETRIEVAL_OUTCOME_BUDGET_TOO_SMALL: RetrievalOutcome
RETRIEVAL_OUTCOME_NOTHING_MATCHED: RetrievalOutcome
RETRIEVAL_OUTCOME_NOTHING_PERMITTED: RetrievalOutcome
RETRIEVAL_OUTCOME_ALL_BLOCKED: RetrievalOutcome
RETRIEVAL_OUTCOME_BELOW_THRESHOLD: RetrievalOutcome
RETRIEVAL_OUTCOME_NOTHING_FITS: RetrievalOutcome
DISPOSITION_UNSPECIFIED: Disposition
DISPOSITION_SELECTED: Disposition
DISPOSITION_OVER_BUDGET: Disposition
DISPOSITION_BELOW_VALUE: Disposition
DISPOSITION_BLOCKED: Disposition
DISPOSITION_SUPERSEDED: Disposition
DISPOSITION_NOT_PERMITTED: Disposition
DISPOSITION_DUPLICATE: Disposition
DISPOSITION_DEFERRED: Disposition
CANDIDATE_SOURCE_UNSPECIFIED: CandidateSource
CANDIDATE_SOURCE_GRAPH: CandidateSource
CANDIDATE_SOURCE_FULL_TEXT: CandidateSource
CANDIDATE_SOURCE_VECTOR: CandidateSource
CANDIDATE_SOURCE_SESSION: CandidateSource
CANDIDATE_SOURCE_HANDLE: CandidateSource
CANDIDATE_SOURCE_TIER: CandidateSource
REFERENCE_METHOD_UNSPECIFIED: ReferenceMethod
REFERENCE_METHOD_CITATION: ReferenceMethod
REFERENCE_METHOD_KEY_PHRASES: ReferenceMethod
REFERENCE_METHOD_ENTAILMENT: ReferenceMethod
REFERENCE_METHOD_CALLER_CITED: ReferenceMethod
REFERENCE_METHOD_DECISION_IMPACT: ReferenceMethod

class RetrievalBudget(_message.Message):
    __slots__ = ("total_step_budget", "retrieval_budget", "harness_overhead", "reasoning_reserve_ratio", "harness_texts", "expected_steps", "session_tokens_remaining")
    TOTAL_STEP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    RETRIEVAL_BUDGET_FIELD_NUMBER: _ClassVar[int]
    HARNESS_OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    REASONING_RESERVE_RATIO_FIELD_NUMBER: _ClassVar[int]
    HARNESS_TEXTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_STEPS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKENS_REMAINING_FIELD_NUMBER: _ClassVar[int]
    total_step_budget: int
    retrieval_budget: int
    harness_overhead: int
    reasoning_reserve_ratio: float
    harness_texts: _containers.RepeatedScalarFieldContainer[str]
    expected_steps: int
    session_tokens_remaining: int
    def __init__(self, total_step_budget: _Optional[int] = ..., retrieval_budget: _Optional[int] = ..., harness_overhead: _Optional[int] = ..., reasoning_reserve_ratio: _Optional[float] = ..., harness_texts: _Optional[_Iterable[str]] = ..., expected_steps: _Optional[int] = ..., session_tokens_remaining: _Optional[int] = ...) -> None: ...

class EdgeFilter(_message.Message):
    __slots__ = ("edge_type", "direction")
    EDGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    edge_type: _core_pb2.EdgeType
    direction: _core_pb2.Direction
    def __init__(self, edge_type: _Optional[_Union[_core_pb2.EdgeType, str]] = ..., direction: _Optional[_Union[_core_pb2.Direction, str]] = ...) -> None: ...

class RetrieveRequest(_message.Message):
    __slots__ = ("session_id", "task_step", "model", "query", "query_embedding", "task_id", "anchor_unit_ids", "follow", "wanted_edge_types", "max_hops", "budget", "kinds", "as_of", "consistency", "max_described_candidates")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERY_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    WANTED_EDGE_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    MAX_DESCRIBED_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task_step: int
    model: str
    query: str
    query_embedding: _containers.RepeatedScalarFieldContainer[float]
    task_id: str
    anchor_unit_ids: _containers.RepeatedScalarFieldContainer[str]
    follow: _containers.RepeatedCompositeFieldContainer[EdgeFilter]
    wanted_edge_types: _containers.RepeatedScalarFieldContainer[_core_pb2.EdgeType]
    max_hops: int
    budget: RetrievalBudget
    kinds: _containers.RepeatedScalarFieldContainer[_core_pb2.ContextUnitKind]
    as_of: _timestamp_pb2.Timestamp
    consistency: _core_pb2.Consistency
    max_described_candidates: int
    def __init__(self, session_id: _Optional[str] = ..., task_step: _Optional[int] = ..., model: _Optional[str] = ..., query: _Optional[str] = ..., query_embedding: _Optional[_Iterable[float]] = ..., task_id: _Optional[str] = ..., anchor_unit_ids: _Optional[_Iterable[str]] = ..., follow: _Optional[_Iterable[_Union[EdgeFilter, _Mapping]]] = ..., wanted_edge_types: _Optional[_Iterable[_Union[_core_pb2.EdgeType, str]]] = ..., max_hops: _Optional[int] = ..., budget: _Optional[_Union[RetrievalBudget, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[_core_pb2.ContextUnitKind, str]]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ..., max_described_candidates: _Optional[int] = ...) -> None: ...

class GraphPath(_message.Message):
    __slots__ = ("hop_count", "edge_types", "unit_ids", "edge_type_match")
    HOP_COUNT_FIELD_NUMBER: _ClassVar[int]
    EDGE_TYPES_FIELD_NUMBER: _ClassVar[int]
    UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    EDGE_TYPE_MATCH_FIELD_NUMBER: _ClassVar[int]
    hop_count: int
    edge_types: _containers.RepeatedScalarFieldContainer[_core_pb2.EdgeType]
    unit_ids: _containers.RepeatedScalarFieldContainer[str]
    edge_type_match: float
    def __init__(self, hop_count: _Optional[int] = ..., edge_types: _Optional[_Iterable[_Union[_core_pb2.EdgeType, str]]] = ..., unit_ids: _Optional[_Iterable[str]] = ..., edge_type_match: _Optional[float] = ...) -> None: ...

class FeatureContribution(_message.Message):
    __slots__ = ("feature", "raw", "scaled", "weight", "logit")
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    SCALED_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    feature: str
    raw: float
    scaled: float
    weight: float
    logit: float
    def __init__(self, feature: _Optional[str] = ..., raw: _Optional[float] = ..., scaled: _Optional[float] = ..., weight: _Optional[float] = ..., logit: _Optional[float] = ...) -> None: ...

class RankedCandidate(_message.Message):
    __slots__ = ("unit_id", "unit_key", "kind", "path", "rank", "value", "cost", "value_cost_ratio", "disposition", "detail", "sources", "graph_path", "topic_score", "full_text_score", "vector_score", "intercept", "contributions", "superseded_by", "companion_unit_ids")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    VALUE_COST_RATIO_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    GRAPH_PATH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_SCORE_FIELD_NUMBER: _ClassVar[int]
    FULL_TEXT_SCORE_FIELD_NUMBER: _ClassVar[int]
    VECTOR_SCORE_FIELD_NUMBER: _ClassVar[int]
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_BY_FIELD_NUMBER: _ClassVar[int]
    COMPANION_UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    unit_key: str
    kind: _core_pb2.ContextUnitKind
    path: str
    rank: int
    value: float
    cost: int
    value_cost_ratio: float
    disposition: Disposition
    detail: str
    sources: _containers.RepeatedScalarFieldContainer[CandidateSource]
    graph_path: GraphPath
    topic_score: float
    full_text_score: float
    vector_score: float
    intercept: float
    contributions: _containers.RepeatedCompositeFieldContainer[FeatureContribution]
    superseded_by: str
    companion_unit_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, unit_id: _Optional[str] = ..., unit_key: _Optional[str] = ..., kind: _Optional[_Union[_core_pb2.ContextUnitKind, str]] = ..., path: _Optional[str] = ..., rank: _Optional[int] = ..., value: _Optional[float] = ..., cost: _Optional[int] = ..., value_cost_ratio: _Optional[float] = ..., disposition: _Optional[_Union[Disposition, str]] = ..., detail: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[CandidateSource, str]]] = ..., graph_path: _Optional[_Union[GraphPath, _Mapping]] = ..., topic_score: _Optional[float] = ..., full_text_score: _Optional[float] = ..., vector_score: _Optional[float] = ..., intercept: _Optional[float] = ..., contributions: _Optional[_Iterable[_Union[FeatureContribution, _Mapping]]] = ..., superseded_by: _Optional[str] = ..., companion_unit_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BudgetLedger(_message.Message):
    __slots__ = ("total_step_budget", "harness_overhead", "reasoning_reserve", "retrieval_budget", "ranking_charge", "tokens_spent", "budget_remaining", "candidates_selected", "candidates_deferred", "threshold_factor")
    TOTAL_STEP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    HARNESS_OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    REASONING_RESERVE_FIELD_NUMBER: _ClassVar[int]
    RETRIEVAL_BUDGET_FIELD_NUMBER: _ClassVar[int]
    RANKING_CHARGE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_SPENT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_REMAINING_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_SELECTED_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_DEFERRED_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FACTOR_FIELD_NUMBER: _ClassVar[int]
    total_step_budget: int
    harness_overhead: int
    reasoning_reserve: int
    retrieval_budget: int
    ranking_charge: int
    tokens_spent: int
    budget_remaining: int
    candidates_selected: int
    candidates_deferred: int
    threshold_factor: float
    def __init__(self, total_step_budget: _Optional[int] = ..., harness_overhead: _Optional[int] = ..., reasoning_reserve: _Optional[int] = ..., retrieval_budget: _Optional[int] = ..., ranking_charge: _Optional[int] = ..., tokens_spent: _Optional[int] = ..., budget_remaining: _Optional[int] = ..., candidates_selected: _Optional[int] = ..., candidates_deferred: _Optional[int] = ..., threshold_factor: _Optional[float] = ...) -> None: ...

class RetrieveResponse(_message.Message):
    __slots__ = ("retrieval_id", "outcome", "outcome_detail", "payload", "units", "candidates", "candidate_count", "ledger", "strategy", "anchor_ids", "partial", "encoding", "query_fingerprint", "revision", "duration_ms", "notices")
    RETRIEVAL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_DETAIL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    QUERY_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    retrieval_id: str
    outcome: RetrievalOutcome
    outcome_detail: str
    payload: str
    units: _containers.RepeatedCompositeFieldContainer[_core_pb2.ContextUnit]
    candidates: _containers.RepeatedCompositeFieldContainer[RankedCandidate]
    candidate_count: int
    ledger: BudgetLedger
    strategy: str
    anchor_ids: _containers.RepeatedScalarFieldContainer[str]
    partial: bool
    encoding: str
    query_fingerprint: str
    revision: _core_pb2.RevisionToken
    duration_ms: float
    notices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, retrieval_id: _Optional[str] = ..., outcome: _Optional[_Union[RetrievalOutcome, str]] = ..., outcome_detail: _Optional[str] = ..., payload: _Optional[str] = ..., units: _Optional[_Iterable[_Union[_core_pb2.ContextUnit, _Mapping]]] = ..., candidates: _Optional[_Iterable[_Union[RankedCandidate, _Mapping]]] = ..., candidate_count: _Optional[int] = ..., ledger: _Optional[_Union[BudgetLedger, _Mapping]] = ..., strategy: _Optional[str] = ..., anchor_ids: _Optional[_Iterable[str]] = ..., partial: _Optional[bool] = ..., encoding: _Optional[str] = ..., query_fingerprint: _Optional[str] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ..., duration_ms: _Optional[float] = ..., notices: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainRetrievalRequest(_message.Message):
    __slots__ = ("session_id", "retrieval_id", "consistency")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIEVAL_ID_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    retrieval_id: str
    consistency: _core_pb2.Consistency
    def __init__(self, session_id: _Optional[str] = ..., retrieval_id: _Optional[str] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ...) -> None: ...

class ExplainRetrievalResponse(_message.Message):
    __slots__ = ("retrieval_id", "query", "query_fingerprint", "task_id", "task_step", "created_time", "strategy", "outcome", "ledger", "partial", "candidates", "duration_ms")
    RETRIEVAL_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERY_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_STEP_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    retrieval_id: str
    query: str
    query_fingerprint: str
    task_id: str
    task_step: int
    created_time: _timestamp_pb2.Timestamp
    strategy: str
    outcome: RetrievalOutcome
    ledger: BudgetLedger
    partial: bool
    candidates: _containers.RepeatedCompositeFieldContainer[RankedCandidate]
    duration_ms: float
    def __init__(self, retrieval_id: _Optional[str] = ..., query: _Optional[str] = ..., query_fingerprint: _Optional[str] = ..., task_id: _Optional[str] = ..., task_step: _Optional[int] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., strategy: _Optional[str] = ..., outcome: _Optional[_Union[RetrievalOutcome, str]] = ..., ledger: _Optional[_Union[BudgetLedger, _Mapping]] = ..., partial: _Optional[bool] = ..., candidates: _Optional[_Iterable[_Union[RankedCandidate, _Mapping]]] = ..., duration_ms: _Optional[float] = ...) -> None: ...

class ReportOutcomeRequest(_message.Message):
    __slots__ = ("session_id", "retrieval_id", "request_id", "output", "cited_unit_ids", "decisive_unit_ids")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIEVAL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CITED_UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    DECISIVE_UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    retrieval_id: str
    request_id: str
    output: str
    cited_unit_ids: _containers.RepeatedScalarFieldContainer[str]
    decisive_unit_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_id: _Optional[str] = ..., retrieval_id: _Optional[str] = ..., request_id: _Optional[str] = ..., output: _Optional[str] = ..., cited_unit_ids: _Optional[_Iterable[str]] = ..., decisive_unit_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class UnitOutcome(_message.Message):
    __slots__ = ("unit_id", "referenced", "methods", "evidence")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCED_FIELD_NUMBER: _ClassVar[int]
    METHODS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    referenced: bool
    methods: _containers.RepeatedScalarFieldContainer[ReferenceMethod]
    evidence: str
    def __init__(self, unit_id: _Optional[str] = ..., referenced: _Optional[bool] = ..., methods: _Optional[_Iterable[_Union[ReferenceMethod, str]]] = ..., evidence: _Optional[str] = ...) -> None: ...

class ReportOutcomeResponse(_message.Message):
    __slots__ = ("outcomes", "replayed", "revision")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[UnitOutcome]
    replayed: bool
    revision: _core_pb2.RevisionToken
    def __init__(self, outcomes: _Optional[_Iterable[_Union[UnitOutcome, _Mapping]]] = ..., replayed: _Optional[bool] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...
