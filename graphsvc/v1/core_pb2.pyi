import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ContextUnitKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_UNIT_KIND_UNSPECIFIED: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_TOOL_RESULT: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_DECISION: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_STATE_SNAPSHOT: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_PROGRESS_NOTE: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_CONSTRAINT: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_CORRECTION: _ClassVar[ContextUnitKind]
    CONTEXT_UNIT_KIND_OBSERVATION: _ClassVar[ContextUnitKind]

class EdgeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_TYPE_UNSPECIFIED: _ClassVar[EdgeType]
    EDGE_TYPE_DEPENDENCY: _ClassVar[EdgeType]
    EDGE_TYPE_PROVENANCE: _ClassVar[EdgeType]
    EDGE_TYPE_SUPERSESSION: _ClassVar[EdgeType]
    EDGE_TYPE_CAUSATION: _ClassVar[EdgeType]

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_UNSPECIFIED: _ClassVar[Direction]
    DIRECTION_BOTH: _ClassVar[Direction]
    DIRECTION_OUTGOING: _ClassVar[Direction]
    DIRECTION_INCOMING: _ClassVar[Direction]

class EpistemicStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISTEMIC_STATUS_UNSPECIFIED: _ClassVar[EpistemicStatus]
    EPISTEMIC_STATUS_TENTATIVE: _ClassVar[EpistemicStatus]
    EPISTEMIC_STATUS_CONFIRMED: _ClassVar[EpistemicStatus]
    EPISTEMIC_STATUS_DISPUTED: _ClassVar[EpistemicStatus]
    EPISTEMIC_STATUS_REFUTED: _ClassVar[EpistemicStatus]

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_HOT: _ClassVar[Tier]
    TIER_WARM: _ClassVar[Tier]
    TIER_COLD: _ClassVar[Tier]
CONTEXT_UNIT_KIND_UNSPECIFIED: ContextUnitKind
CONTEXT_UNIT_KIND_TOOL_RESULT: ContextUnitKind
CONTEXT_UNIT_KIND_DECISION: ContextUnitKind
CONTEXT_UNIT_KIND_STATE_SNAPSHOT: ContextUnitKind
CONTEXT_UNIT_KIND_PROGRESS_NOTE: ContextUnitKind
CONTEXT_UNIT_KIND_CONSTRAINT: ContextUnitKind
CONTEXT_UNIT_KIND_CORRECTION: ContextUnitKind
CONTEXT_UNIT_KIND_OBSERVATION: ContextUnitKind
EDGE_TYPE_UNSPECIFIED: EdgeType
EDGE_TYPE_DEPENDENCY: EdgeType
EDGE_TYPE_PROVENANCE: EdgeType
EDGE_TYPE_SUPERSESSION: EdgeType
EDGE_TYPE_CAUSATION: EdgeType
DIRECTION_UNSPECIFIED: Direction
DIRECTION_BOTH: Direction
DIRECTION_OUTGOING: Direction
DIRECTION_INCOMING: Direction
EPISTEMIC_STATUS_UNSPECIFIED: EpistemicStatus
EPISTEMIC_STATUS_TENTATIVE: EpistemicStatus
EPISTEMIC_STATUS_CONFIRMED: EpistemicStatus
EPISTEMIC_STATUS_DISPUTED: EpistemicStatus
EPISTEMIC_STATUS_REFUTED: EpistemicStatus
TIER_UNSPECIFIED: Tier
TIER_HOT: Tier
TIER_WARM: Tier
TIER_COLD: Tier

class ToolCall(_message.Message):
    __slots__ = ("call_id", "name", "arguments_json")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments_json: str
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("target_id", "target_key", "edge_type", "role", "weight")
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_KEY_FIELD_NUMBER: _ClassVar[int]
    EDGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    target_id: str
    target_key: str
    edge_type: EdgeType
    role: str
    weight: float
    def __init__(self, target_id: _Optional[str] = ..., target_key: _Optional[str] = ..., edge_type: _Optional[_Union[EdgeType, str]] = ..., role: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class ContextUnit(_message.Message):
    __slots__ = ("unit_id", "unit_key", "kind", "content", "timestamp", "agent_id", "session_id", "task_step", "epistemic_status", "provenance", "relevance_score", "tier", "relations", "path", "model", "pinned", "tool_call", "vendor_state", "task_id", "created_time", "content_sha256", "size_bytes", "token_counts", "superseded_by", "embedding")
    class TokenCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_STEP_FIELD_NUMBER: _ClassVar[int]
    EPISTEMIC_STATUS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_SCORE_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    VENDOR_STATE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_BY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    unit_key: str
    kind: ContextUnitKind
    content: str
    timestamp: _timestamp_pb2.Timestamp
    agent_id: str
    session_id: str
    task_step: int
    epistemic_status: EpistemicStatus
    provenance: _containers.RepeatedScalarFieldContainer[str]
    relevance_score: float
    tier: Tier
    relations: _containers.RepeatedCompositeFieldContainer[Relation]
    path: str
    model: str
    pinned: bool
    tool_call: ToolCall
    vendor_state: bytes
    task_id: str
    created_time: _timestamp_pb2.Timestamp
    content_sha256: str
    size_bytes: int
    token_counts: _containers.ScalarMap[str, int]
    superseded_by: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, unit_id: _Optional[str] = ..., unit_key: _Optional[str] = ..., kind: _Optional[_Union[ContextUnitKind, str]] = ..., content: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., agent_id: _Optional[str] = ..., session_id: _Optional[str] = ..., task_step: _Optional[int] = ..., epistemic_status: _Optional[_Union[EpistemicStatus, str]] = ..., provenance: _Optional[_Iterable[str]] = ..., relevance_score: _Optional[float] = ..., tier: _Optional[_Union[Tier, str]] = ..., relations: _Optional[_Iterable[_Union[Relation, _Mapping]]] = ..., path: _Optional[str] = ..., model: _Optional[str] = ..., pinned: _Optional[bool] = ..., tool_call: _Optional[_Union[ToolCall, _Mapping]] = ..., vendor_state: _Optional[bytes] = ..., task_id: _Optional[str] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., content_sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., token_counts: _Optional[_Mapping[str, int]] = ..., superseded_by: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ...) -> None: ...

class RevisionToken(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class Consistency(_message.Message):
    __slots__ = ("minimize_latency", "at_least_as_fresh")
    MINIMIZE_LATENCY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_AS_FRESH_FIELD_NUMBER: _ClassVar[int]
    minimize_latency: bool
    at_least_as_fresh: RevisionToken
    def __init__(self, minimize_latency: _Optional[bool] = ..., at_least_as_fresh: _Optional[_Union[RevisionToken, _Mapping]] = ...) -> None: ...
