"""Every RPC with the request fields that name something, read from the proto descriptors.

A string field that is not classified here, or an RPC without a sample request, fails the leak test: whoever adds one
says what it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from graphsvc.server.server import SERVICES


class Names(StrEnum):
    """What the value of a field names."""

    UNIT = "unit"
    UNIT_KEY = "unit_key"
    RETRIEVAL = "retrieval"
    POLICY = "policy"
    PAGE = "page"
    REVISION = "revision"
    TASK = "task"
    AGENT = "agent"
    SESSION = "session"
    REQUEST = "request"
    PATH = "path"
    CONTENT = "content"
    NOTHING = "nothing"
    """Free text, or names of the caller's own choosing that refer to nothing stored."""


CLASSES: dict[str, Names] = {
    "PutUnitsRequest.request_id": Names.REQUEST,
    "PutUnitsRequest.session_id": Names.SESSION,
    "PutUnitsRequest.model": Names.NOTHING,
    "GetUnitsRequest.session_id": Names.SESSION,
    "GetUnitsRequest.unit_ids": Names.UNIT,
    "ListUnitsRequest.session_id": Names.SESSION,
    "ListUnitsRequest.owner_agent_id": Names.AGENT,
    "ListUnitsRequest.owner_session_id": Names.SESSION,
    "ListUnitsRequest.task_id": Names.TASK,
    "ListUnitsRequest.path_prefix": Names.PATH,
    "ListUnitsRequest.page_token": Names.PAGE,
    "DeleteUnitsRequest.request_id": Names.REQUEST,
    "DeleteUnitsRequest.session_id": Names.SESSION,
    "DeleteUnitsRequest.unit_ids": Names.UNIT,
    "LinkUnitsRequest.request_id": Names.REQUEST,
    "LinkUnitsRequest.session_id": Names.SESSION,
    "UnlinkUnitsRequest.request_id": Names.REQUEST,
    "UnlinkUnitsRequest.session_id": Names.SESSION,
    "UnitEdge.source_id": Names.UNIT,
    "Relation.target_id": Names.UNIT,
    "Relation.target_key": Names.UNIT_KEY,
    "Relation.role": Names.NOTHING,
    "ContextUnit.unit_id": Names.UNIT,
    "ContextUnit.unit_key": Names.UNIT_KEY,
    "ContextUnit.content": Names.CONTENT,
    "ContextUnit.agent_id": Names.AGENT,
    "ContextUnit.session_id": Names.SESSION,
    "ContextUnit.provenance": Names.NOTHING,
    "ContextUnit.path": Names.PATH,
    "ContextUnit.model": Names.NOTHING,
    "ContextUnit.vendor_state": Names.NOTHING,
    "ContextUnit.task_id": Names.TASK,
    "ContextUnit.content_sha256": Names.NOTHING,
    "ContextUnit.superseded_by": Names.UNIT,
    "ToolCall.call_id": Names.NOTHING,
    "ToolCall.name": Names.NOTHING,
    "ToolCall.arguments_json": Names.NOTHING,
    "TokenCountsEntry.key": Names.NOTHING,
    "RevisionToken.token": Names.REVISION,
    "RetrieveRequest.session_id": Names.SESSION,
    "RetrieveRequest.model": Names.NOTHING,
    "RetrieveRequest.query": Names.NOTHING,
    "RetrieveRequest.task_id": Names.TASK,
    "RetrieveRequest.anchor_unit_ids": Names.UNIT,
    "RetrievalBudget.harness_texts": Names.NOTHING,
    "ExplainRetrievalRequest.session_id": Names.SESSION,
    "ExplainRetrievalRequest.retrieval_id": Names.RETRIEVAL,
    "ReportOutcomeRequest.session_id": Names.SESSION,
    "ReportOutcomeRequest.retrieval_id": Names.RETRIEVAL,
    "ReportOutcomeRequest.request_id": Names.REQUEST,
    "ReportOutcomeRequest.output": Names.NOTHING,
    "ReportOutcomeRequest.cited_unit_ids": Names.UNIT,
    "ReportOutcomeRequest.decisive_unit_ids": Names.UNIT,
    "CreatePolicyRequest.request_id": Names.REQUEST,
    "Policy.policy_id": Names.POLICY,
    "Policy.owner_agent_id": Names.AGENT,
    "Policy.owner_session_id": Names.SESSION,
    "Policy.grantee_agent_id": Names.AGENT,
    "Policy.grantee_session_id": Names.SESSION,
    "Policy.created_by": Names.AGENT,
    "ListPoliciesRequest.page_token": Names.PAGE,
    "DeletePolicyRequest.request_id": Names.REQUEST,
    "DeletePolicyRequest.policy_id": Names.POLICY,
    "RecalibratePredictorRequest.request_id": Names.REQUEST,
    "ListPredictorsRequest.page_token": Names.PAGE,
    "RollBackPredictorRequest.request_id": Names.REQUEST,
}
"""By message and field."""


@dataclass(frozen=True, slots=True)
class NamingField:
    """A field of a request that names something.

    Attributes:
        path: field names from the request down; of repeated fields the first element is meant.
    """

    path: tuple[str, ...]
    names: Names

    def put(self, request: Message, value: str) -> None:
        """Sets the field, making the messages on its way."""
        parent = request
        *way, last = self.path
        for step in way:
            inner = getattr(parent, step)
            if parent.DESCRIPTOR.fields_by_name[step].is_repeated:
                parent = inner[0] if len(inner) else inner.add()
            else:
                parent = inner
        if parent.DESCRIPTOR.fields_by_name[last].is_repeated:
            del getattr(parent, last)[:]
            getattr(parent, last).append(value)
        else:
            setattr(parent, last, value)

    def __str__(self) -> str:
        return ".".join(self.path)


def methods() -> tuple[MethodDescriptor, ...]:
    """Every RPC of the public API."""
    return tuple(method for service in SERVICES for method in service.methods)


def unclassified() -> list[str]:
    """String fields of requests that CLASSES lacks, and entries of CLASSES that are no such field."""
    there = {key for method in methods() for _, key in _strings(method.input_type)}
    return sorted(there ^ set(CLASSES))


def naming_fields(method: MethodDescriptor) -> list[NamingField]:
    """The fields of an RPC's request that name something."""
    return [
        NamingField(path, CLASSES[key])
        for path, key in _strings(method.input_type)
        if CLASSES[key] is not Names.NOTHING
    ]


def _strings(descriptor: Descriptor, way: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in descriptor.fields:
        path = (*way, field.name)
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            yield path, f"{descriptor.name}.{field.name}"
        elif field.message_type is not None:
            yield from _strings(field.message_type, path)
