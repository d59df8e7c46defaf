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

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_READER: _ClassVar[Role]
    ROLE_WRITER: _ClassVar[Role]
    ROLE_ANALYST: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
ROLE_UNSPECIFIED: Role
ROLE_READER: Role
ROLE_WRITER: Role
ROLE_ANALYST: Role
ROLE_ADMIN: Role

class Policy(_message.Message):
    __slots__ = ("policy_id", "owner_agent_id", "owner_session_id", "grantee_agent_id", "grantee_session_id", "kinds", "expires_time", "created_time", "created_by")
    POLICY_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GRANTEE_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    GRANTEE_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    policy_id: str
    owner_agent_id: str
    owner_session_id: str
    grantee_agent_id: str
    grantee_session_id: str
    kinds: _containers.RepeatedScalarFieldContainer[_core_pb2.ContextUnitKind]
    expires_time: _timestamp_pb2.Timestamp
    created_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, policy_id: _Optional[str] = ..., owner_agent_id: _Optional[str] = ..., owner_session_id: _Optional[str] = ..., grantee_agent_id: _Optional[str] = ..., grantee_session_id: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[_core_pb2.ContextUnitKind, str]]] = ..., expires_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class GetPrincipalRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPrincipalResponse(_message.Message):
    __slots__ = ("tenant_id", "agent_id", "roles")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    agent_id: str
    roles: _containers.RepeatedScalarFieldContainer[Role]
    def __init__(self, tenant_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., roles: _Optional[_Iterable[_Union[Role, str]]] = ...) -> None: ...

class CreatePolicyRequest(_message.Message):
    __slots__ = ("request_id", "policy")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    policy: Policy
    def __init__(self, request_id: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class CreatePolicyResponse(_message.Message):
    __slots__ = ("policy", "revision")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    revision: _core_pb2.RevisionToken
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "consistency")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    consistency: _core_pb2.Consistency
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., consistency: _Optional[_Union[_core_pb2.Consistency, _Mapping]] = ...) -> None: ...

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies", "next_page_token")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    next_page_token: str
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeletePolicyRequest(_message.Message):
    __slots__ = ("request_id", "policy_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    policy_id: str
    def __init__(self, request_id: _Optional[str] = ..., policy_id: _Optional[str] = ...) -> None: ...

class DeletePolicyResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: _core_pb2.RevisionToken
    def __init__(self, revision: _Optional[_Union[_core_pb2.RevisionToken, _Mapping]] = ...) -> None: ...
