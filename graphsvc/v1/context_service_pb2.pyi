from graphsvc.v1 import core_pb2 as _core_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WriteStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WRITE_STATUS_UNSPECIFIED: _ClassVar[WriteStatus]
    WRITE_STATUS_CREATED: _ClassVar[WriteStatus]
    WRITE_STATUS_EXISTING: _ClassVar[WriteStatus]
WRITE_STATUS_UNSPECIFIED: WriteStatus
WRITE_STATUS_CREATED: WriteStatus
WRITE_STATUS_EXISTING: WriteStatus

class PutUnitsRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "model", "units")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    model: str
    units: _containers.RepeatedCompositeFieldContainer[_core_pb2.ContextUnit]
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., model: _Optional[str] = ..., units: _Optional[_Iterable[_Union[_core_pb2.ContextUnit, _Mapping]]] = ...) -> None: ...

class PutUnitResult(_message.Message):
    __slots__ = ("unit_id", "unit_key", "status")
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_KEY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    unit_id: str
    unit_key: str
    status: WriteStatus
    def __init__(self, unit_id: _Optional[str] = ..., unit_key: _Optional[str] = ..., status: _Optional[_Union[WriteStatus, str]] = ...) -> None: ...

class PutUnitsResponse(_message.Message):
    __slots__ = ("results", "revision")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PutUnitResult]
    revision: _core_pb2.RevisionToken
    def __init__(self, results: _Optional[_Iterable[_Union[PutUnitResult, _Mapping]]] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...

class GetUnitsRequest(_message.Message):
    __slots__ = ("session_id", "unit_ids", "without_content", "consistency")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    unit_ids: _containers.RepeatedScalarFieldContainer[str]
    without_content: bool
    consistency: _core_pb2.Consistency
    def __init__(self, session_id: _Optional[str] = ..., unit_ids: _Optional[_Iterable[str]] = ..., without_content: _Optional[bool] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ...) -> None: ...

class GetUnitsResponse(_message.Message):
    __slots__ = ("units", "missing_ids")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    units: _containers.RepeatedCompositeFieldContainer[_core_pb2.ContextUnit]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, units: _Optional[_Iterable[_Union[_core_pb2.ContextUnit, _Mapping]]] = ..., missing_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListUnitsRequest(_message.Message):
    __slots__ = ("session_id", "kinds", "owner_agent_id", "owner_session_id", "task_id", "path_prefix", "current_only", "page_size", "page_token", "with_content", "consistency")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_PREFIX_FIELD_NUMBER: _ClassVar[int]
    CURRENT_ONLY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WITH_CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    kinds: _containers.RepeatedScalarFieldContainer[_core_pb2.ContextUnitKind]
    owner_agent_id: str
    owner_session_id: str
    task_id: str
    path_prefix: str
    current_only: bool
    page_size: int
    page_token: str
    with_content: bool
    consistency: _core_pb2.Consistency
    def __init__(self, session_id: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[_core_pb2.ContextUnitKind, str]]] = ..., owner_agent_id: _Optional[str] = ..., owner_session_id: _Optional[str] = ..., task_id: _Optional[str] = ..., path_prefix: _Optional[str] = ..., current_only: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., with_content: _Optional[bool] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ...) -> None: ...

class ListUnitsResponse(_message.Message):
    __slots__ = ("units", "next_page_token")
    UNITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    units: _containers.RepeatedCompositeFieldContainer[_core_pb2.ContextUnit]
    next_page_token: str
    def __init__(self, units: _Optional[_Iterable[_Union[_core_pb2.ContextUnit, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteUnitsRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "unit_ids")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_IDS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    unit_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., unit_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteUnitsResponse(_message.Message):
    __slots__ = ("deleted_ids", "revision")
    DELETED_IDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    deleted_ids: _containers.RepeatedScalarFieldContainer[str]
    revision: _core_pb2.RevisionToken
    def __init__(self, deleted_ids: _Optional[_Iterable[str]] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...

class UnitEdge(_message.Message):
    __slots__ = ("source_id", "relation")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    source_id: str
    relation: _core_pb2.Relation
    def __init__(self, source_id: _Optional[str] = ..., relation: _Optional[_Union[_core_pb2.Relation, _Mapping]] = ...) -> None: ...

class LinkUnitsRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "edges")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    edges: _containers.RepeatedCompositeFieldContainer[UnitEdge]
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., edges: _Optional[_Iterable[_Union[UnitEdge, _Mapping]]] = ...) -> None: ...

class LinkUnitsResponse(_message.Message):
    __slots__ = ("statuses", "revision")
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedScalarFieldContainer[WriteStatus]
    revision: _core_pb2.RevisionToken
    def __init__(self, statuses: _Optional[_Iterable[_Union[WriteStatus, str]]] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...

class UnlinkUnitsRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "edges")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    edges: _containers.RepeatedCompositeFieldContainer[UnitEdge]
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., edges: _Optional[_Iterable[_Union[UnitEdge, _Mapping]]] = ...) -> None: ...

class UnlinkUnitsResponse(_message.Message):
    __slots__ = ("removed_count", "revision")
    REMOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    removed_count: int
    revision: _core_pb2.RevisionToken
    def __init__(self, removed_count: _Optional[int] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...
