"""Messages to domain types and back.

What a message can get wrong by itself is checked here (unset, unknown enum value, time out of range, too large); what
the format demands of a unit or a query is checked by the use cases. Faults name the field: ``units[3].timestamp``.
Source: design.md, Proto; limits as stated in ``proto/graphsvc/v1``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypedDict, TypeVar, cast

from google.protobuf import message
from google.protobuf.timestamp_pb2 import Timestamp

from graphsvc.domain import candidates, outcomes, tenancy, units
from graphsvc.domain.budget import Ledger
from graphsvc.domain.content import check_name
from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnit, unit_id_for
from graphsvc.ports import StoredUnit, UnitFilter, WriteStatus, Written
from graphsvc.services.drafts import (
    BudgetDraft,
    EdgeDraft,
    ExplainedRetrieval,
    RelationDraft,
    RetrievalAnswer,
    RetrievalQuery,
    UnitDraft,
)
from graphsvc.v1 import (
    context_service_pb2,
    core_pb2,
    registry_service_pb2,
    retrieval_service_pb2,
)

MAX_REQUEST_BYTES = 16 * 2**20
MAX_REQUEST_ID_BYTES = 128
MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 100
MAX_ARGUMENTS_BYTES = 64 * 2**10
MAX_EMBEDDING_DIMENSIONS = 4096
MAX_HARNESS_TEXTS = 256
MAX_HARNESS_BYTES = 2**20
MAX_EXPECTED_STEPS = 1_000_000
MAX_DESCRIBED_CANDIDATES = 1000
DEFAULT_DESCRIBED_CANDIDATES = 100
DEFAULT_MAX_HOPS = 3
ANY_OWNER = "*"
"""owner_agent_id of a policy that shares every agent's units; the domain writes it as an empty string."""

D = TypeVar("D", bound=StrEnum)
T = TypeVar("T")


class _EnumWrapper(Protocol):
    """What a generated enum offers."""

    def Value(self, name: str) -> Any: ...  # noqa: N802


class EnumMap(Generic[D]):
    """A closed set in both worlds: the proto value is the prefix and the domain member's name."""

    def __init__(self, wrapper: _EnumWrapper, prefix: str, members: type[D]) -> None:
        self._to_proto: dict[D, Any] = {member: wrapper.Value(f"{prefix}_{member.name}") for member in members}
        self._to_domain: dict[int, D] = {int(number): member for member, number in self._to_proto.items()}

    def to_proto(self, member: D) -> Any:  # the generated enums are int subclasses that only their stubs know
        """The proto value."""
        return self._to_proto[member]

    def to_domain(self, number: int, field: str) -> D:
        """The domain member.

        Raises:
            InvalidArgument: FIELD_REQUIRED when unspecified, FIELD_INVALID when unknown.
        """
        member = self._to_domain.get(int(number))
        if member is None:
            names = ", ".join(sorted(one.name for one in self._to_proto))
            if int(number) == 0:
                raise InvalidArgument(ErrorReason.FIELD_REQUIRED, f"{field} is required: one of {names}", field=field)
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID, f"{field} has the unknown value {number}: send one of {names}", field=field
            )
        return member


KINDS = EnumMap(core_pb2.ContextUnitKind, "CONTEXT_UNIT_KIND", units.ContextUnitKind)
EDGE_TYPES = EnumMap(core_pb2.EdgeType, "EDGE_TYPE", units.EdgeType)
DIRECTIONS = EnumMap(core_pb2.Direction, "DIRECTION", units.Direction)
EPISTEMIC_STATUSES = EnumMap(core_pb2.EpistemicStatus, "EPISTEMIC_STATUS", units.EpistemicStatus)
TIERS = EnumMap(core_pb2.Tier, "TIER", units.Tier)
WRITE_STATUSES = EnumMap(context_service_pb2.WriteStatus, "WRITE_STATUS", WriteStatus)
OUTCOMES = EnumMap(retrieval_service_pb2.RetrievalOutcome, "RETRIEVAL_OUTCOME", candidates.Outcome)
DISPOSITIONS = EnumMap(retrieval_service_pb2.Disposition, "DISPOSITION", candidates.Disposition)
SOURCES = EnumMap(retrieval_service_pb2.CandidateSource, "CANDIDATE_SOURCE", candidates.CandidateSource)
REFERENCE_METHODS = EnumMap(retrieval_service_pb2.ReferenceMethod, "REFERENCE_METHOD", outcomes.ReferenceMethod)


# ---- requests -------------------------------------------------------------------------------------------------------


def fingerprint(request: message.Message) -> str:
    """Hex sha256 of a write's canonical bytes: the same request gives the same one, in every process."""
    digest = hashlib.sha256(request.DESCRIPTOR.full_name.encode())
    digest.update(b"\0")
    digest.update(request.SerializeToString(deterministic=True))
    return digest.hexdigest()


def request_id(text: str) -> str:
    """The request_id of a write, checked.

    Raises:
        InvalidArgument: unset, longer than 128 bytes, or with control characters.
    """
    return required_name(text, "request_id", limit=MAX_REQUEST_ID_BYTES)


def required_name(text: str, field: str, *, limit: int = units.MAX_NAME_BYTES) -> str:
    """A name that must be set, checked.

    Raises:
        InvalidArgument: FIELD_REQUIRED, FIELD_INVALID, FIELD_TOO_LARGE.
    """
    if not text:
        raise InvalidArgument(ErrorReason.FIELD_REQUIRED, f"{field} is required", field=field)
    check_name(text, field, limit=limit)
    return text


def optional_name(text: str, field: str, *, limit: int = units.MAX_NAME_BYTES) -> str:
    """A name that may be unset, checked if it is not.

    Raises:
        InvalidArgument: FIELD_INVALID, FIELD_TOO_LARGE.
    """
    if text:
        check_name(text, field, limit=limit)
    return text


def unit_ids(ids: Sequence[str], field: str = "unit_ids") -> list[str]:
    """1 to 1000 ids without repetitions, in the given order.

    Raises:
        InvalidArgument: FIELD_REQUIRED, FIELD_TOO_LARGE, FIELD_INVALID.
    """
    _check_count(len(ids), field)
    return list(dict.fromkeys(required_name(one, f"{field}[{index}]") for index, one in enumerate(ids)))


def page_size(size: int) -> int:
    """Entries a page holds at most; 100 when unset.

    Raises:
        InvalidArgument: FIELD_INVALID, not 1 to 1000.
    """
    if not 0 <= size <= MAX_PAGE_SIZE:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID, f"page_size must be 1 to {MAX_PAGE_SIZE}, or unset", field="page_size"
        )
    return size or DEFAULT_PAGE_SIZE


def unit_drafts(request: context_service_pb2.PutUnitsRequest, principal: Principal) -> list[UnitDraft]:
    """The units of a put; one without a key gets one from the request_id and its place.

    Raises:
        InvalidArgument: a message is malformed.
    """
    _check_count(len(request.units), "units")
    return [
        _unit_draft(one, f"units[{index}]", f"{request.request_id}#{index}", principal)
        for index, one in enumerate(request.units)
    ]


def edge_drafts(edges: Sequence[context_service_pb2.UnitEdge], principal: Principal) -> list[EdgeDraft]:
    """The edges of a link or unlink.

    Raises:
        InvalidArgument: a message is malformed.
    """
    _check_count(len(edges), "edges")
    drafts: list[EdgeDraft] = []
    for index, edge in enumerate(edges):
        source_id = required_name(edge.source_id, f"edges[{index}].source_id")
        drafts.append(
            EdgeDraft(source_id, _relation_draft(edge.relation, f"edges[{index}].relation", source_id, principal))
        )
    return drafts


def unit_filter(request: context_service_pb2.ListUnitsRequest) -> UnitFilter:
    """What a list returns.

    Raises:
        InvalidArgument: a message is malformed.
    """
    return UnitFilter(
        kinds=kinds(request.kinds),
        agent_id=optional_name(request.owner_agent_id, "owner_agent_id"),
        session_id=optional_name(request.owner_session_id, "owner_session_id"),
        task_id=optional_name(request.task_id, "task_id"),
        path_prefix=optional_name(request.path_prefix, "path_prefix", limit=units.MAX_PATH_BYTES),
        current_only=request.current_only,
    )


def listing_of(where: UnitFilter) -> tuple[str, ...]:
    """Name and filters of a list of units, for its page tokens."""
    return (
        "units",
        ",".join(sorted(where.kinds)),
        where.agent_id,
        where.session_id,
        where.task_id,
        where.path_prefix,
        str(where.current_only),
    )


def retrieval_query(request: retrieval_service_pb2.RetrieveRequest) -> RetrievalQuery:
    """What to retrieve.

    Raises:
        InvalidArgument: a message is malformed.
    """
    if request.task_step < 0:
        raise InvalidArgument(ErrorReason.FIELD_INVALID, "task_step must be 0 or more", field="task_step")
    return RetrievalQuery(
        text=request.query,
        budget=_budget_draft(request.budget),
        task_step=request.task_step,
        task_id=optional_name(request.task_id, "task_id"),
        anchor_unit_ids=tuple(
            dict.fromkeys(
                required_name(one, f"anchor_unit_ids[{index}]") for index, one in enumerate(request.anchor_unit_ids)
            )
        ),
        directions=_directions(request.follow),
        wanted=frozenset(
            EDGE_TYPES.to_domain(one, f"wanted_edge_types[{index}]")
            for index, one in enumerate(request.wanted_edge_types)
        ),
        max_hops=request.max_hops or DEFAULT_MAX_HOPS,
        kinds=kinds(request.kinds),
        as_of=time(request.as_of, "as_of") if request.HasField("as_of") else None,
        embedding=_embedding(request.query_embedding, "query_embedding"),
    )


def described_candidates(request: retrieval_service_pb2.RetrieveRequest) -> int:
    """Candidates the answer describes at most; 100 when unset.

    Raises:
        InvalidArgument: FIELD_INVALID, not 0 to 1000.
    """
    if not request.HasField("max_described_candidates"):
        return DEFAULT_DESCRIBED_CANDIDATES
    if not 0 <= request.max_described_candidates <= MAX_DESCRIBED_CANDIDATES:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID,
            f"max_described_candidates must be 0 to {MAX_DESCRIBED_CANDIDATES}",
            field="max_described_candidates",
        )
    return request.max_described_candidates


def outcome_report(request: retrieval_service_pb2.ReportOutcomeRequest) -> outcomes.OutcomeReport:
    """What a caller reports of a retrieval.

    Raises:
        InvalidArgument: a message is malformed.
    """
    return outcomes.OutcomeReport(
        output=request.output,
        cited_unit_ids=_named_units(request.cited_unit_ids, "cited_unit_ids"),
        decisive_unit_ids=_named_units(request.decisive_unit_ids, "decisive_unit_ids"),
    )


def kinds(numbers: Iterable[int], field: str = "kinds") -> frozenset[units.ContextUnitKind]:
    """The kinds named.

    Raises:
        InvalidArgument: FIELD_REQUIRED or FIELD_INVALID for an unspecified or unknown one.
    """
    return frozenset(KINDS.to_domain(one, f"{field}[{index}]") for index, one in enumerate(numbers))


def time(stamp: Timestamp, field: str) -> datetime:
    """The time in UTC, cut to microseconds.

    Raises:
        InvalidArgument: FIELD_INVALID, nanoseconds or year out of range.
    """
    try:
        # ToDatetime accepts some timestamps that are malformed, so the canonical form is asked for first
        stamp.ToJsonString()
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID, f"{field} is not a time between the years 1 and 9999", field=field
        ) from None


# ---- answers --------------------------------------------------------------------------------------------------------


def timestamp(moment: datetime) -> Timestamp:
    """The time as a message."""
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def stored_unit_message(stored: StoredUnit) -> core_pb2.ContextUnit:
    """A unit as get and list return it."""
    return unit_message(stored.unit, superseded_by=stored.superseded_by)


def unit_message(unit: ContextUnit, *, superseded_by: str = "") -> core_pb2.ContextUnit:
    """A unit as answers carry it: everything but the embedding."""
    call = unit.tool_call
    return core_pb2.ContextUnit(
        unit_id=unit.unit_id,
        unit_key=unit.unit_key,
        kind=KINDS.to_proto(unit.kind),
        content=unit.content,
        timestamp=timestamp(unit.timestamp),
        agent_id=unit.agent_id,
        session_id=unit.session_id,
        task_step=unit.task_step,
        epistemic_status=EPISTEMIC_STATUSES.to_proto(unit.epistemic_status),
        provenance=unit.provenance,
        relevance_score=unit.relevance_score,
        tier=TIERS.to_proto(unit.tier),
        relations=[
            core_pb2.Relation(
                target_id=one.target_id, edge_type=EDGE_TYPES.to_proto(one.edge_type), role=one.role, weight=one.weight
            )
            for one in unit.relations
        ],
        path=unit.path,
        model=unit.model,
        pinned=unit.pinned,
        tool_call=None
        if call is None
        else core_pb2.ToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json),
        vendor_state=unit.vendor_state,
        task_id=unit.task_id,
        created_time=timestamp(unit.created_time),
        content_sha256=unit.content_sha256,
        size_bytes=unit.size_bytes,
        token_counts=unit.token_counts,
        superseded_by=superseded_by,
    )


def policy_message(policy: tenancy.Policy) -> registry_service_pb2.Policy:
    """A policy as answers carry it."""
    return registry_service_pb2.Policy(
        policy_id=policy.policy_id,
        owner_agent_id=policy.owner_agent_id or ANY_OWNER,
        owner_session_id=policy.owner_session_id,
        grantee_agent_id=policy.grantee_agent_id,
        grantee_session_id=policy.grantee_session_id,
        kinds=[KINDS.to_proto(kind) for kind in units.ContextUnitKind if kind in policy.kinds],
        expires_time=None if policy.expires_time is None else timestamp(policy.expires_time),
        created_time=timestamp(policy.created_time),
        created_by=policy.created_by,
    )


def retrieval_message(answer: RetrievalAnswer, *, described: int) -> retrieval_service_pb2.RetrieveResponse:
    """The answer of a retrieval, without its revision.

    Args:
        answer: what was decided.
        described: candidates to describe at most, the best ranked first.
    """
    return retrieval_service_pb2.RetrieveResponse(
        retrieval_id=answer.retrieval_id,
        outcome=OUTCOMES.to_proto(answer.outcome),
        outcome_detail=answer.outcome_detail,
        payload=answer.payload,
        units=[unit_message(unit) for unit in answer.units],
        candidates=[_candidate_message(one) for one in answer.candidates[:described]],
        candidate_count=len(answer.candidates),
        ledger=_ledger_message(answer.ledger),
        strategy=answer.strategy,
        anchor_ids=answer.anchor_ids,
        partial=answer.partial,
        encoding=answer.encoding,
        query_fingerprint=answer.query_fingerprint,
        duration_ms=answer.duration_ms,
        notices=answer.notices,
    )


def explained_message(explained: ExplainedRetrieval) -> retrieval_service_pb2.ExplainRetrievalResponse:
    """A retrieval read back, every candidate described."""
    return retrieval_service_pb2.ExplainRetrievalResponse(
        retrieval_id=explained.retrieval_id,
        query=explained.query_text,
        query_fingerprint=explained.query_fingerprint,
        task_id=explained.task_id,
        task_step=explained.task_step,
        created_time=timestamp(explained.created_time),
        strategy=explained.strategy,
        outcome=OUTCOMES.to_proto(explained.outcome),
        ledger=_ledger_message(explained.ledger),
        partial=explained.partial,
        candidates=[_candidate_message(one) for one in explained.candidates],
        duration_ms=explained.duration_ms,
    )


def outcome_message(written: Written[tuple[outcomes.UnitOutcome, ...]]) -> retrieval_service_pb2.ReportOutcomeResponse:
    """The verdicts of a report, without their revision."""
    return retrieval_service_pb2.ReportOutcomeResponse(
        outcomes=[
            retrieval_service_pb2.UnitOutcome(
                unit_id=one.unit_id,
                referenced=one.referenced,
                methods=[REFERENCE_METHODS.to_proto(method) for method in one.methods],
                evidence=one.evidence,
            )
            for one in written.result
        ],
        replayed=written.replayed,
    )


# ---- parts ----------------------------------------------------------------------------------------------------------


def _check_count(count: int, field: str) -> None:
    if not count:
        raise InvalidArgument(ErrorReason.FIELD_REQUIRED, f"{field} must hold at least one entry", field=field)
    if count > units.MAX_BATCH_UNITS:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{field} holds {count} entries; send at most {units.MAX_BATCH_UNITS} in a call",
            field=field,
            limit=units.MAX_BATCH_UNITS,
        )


def _named_units(ids: Sequence[str], field: str) -> tuple[str, ...]:
    return tuple(unit_ids(ids, field)) if ids else ()


def _unit_draft(unit: core_pb2.ContextUnit, where: str, default_key: str, principal: Principal) -> UnitDraft:
    key = optional_name(unit.unit_key, f"{where}.unit_key") or default_key
    unit_id = unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, key)
    return UnitDraft(
        unit_key=key,
        kind=KINDS.to_domain(unit.kind, f"{where}.kind"),
        content=unit.content,
        timestamp=time(unit.timestamp, f"{where}.timestamp") if unit.HasField("timestamp") else None,
        task_step=unit.task_step,
        task_id=unit.task_id,
        epistemic_status=EPISTEMIC_STATUSES.to_domain(unit.epistemic_status, f"{where}.epistemic_status")
        if unit.epistemic_status
        else units.EpistemicStatus.TENTATIVE,
        provenance=tuple(unit.provenance),
        relations=tuple(
            _relation_draft(relation, f"{where}.relations[{index}]", unit_id, principal)
            for index, relation in enumerate(unit.relations)
        ),
        path=unit.path,
        model=unit.model,
        pinned=unit.pinned,
        tool_call=_tool_call(unit.tool_call, f"{where}.tool_call") if unit.HasField("tool_call") else None,
        vendor_state=unit.vendor_state,
        embedding=_embedding(unit.embedding, f"{where}.embedding"),
    )


def _relation_draft(relation: core_pb2.Relation, where: str, source_id: str, principal: Principal) -> RelationDraft:
    target = relation.WhichOneof("target")
    if target is None:
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED, f"{where} needs a target_id or a target_key", field=f"{where}.target_id"
        )
    target_id = required_name(relation.target_id, f"{where}.target_id") if target == "target_id" else ""
    target_key = required_name(relation.target_key, f"{where}.target_key") if target == "target_key" else ""
    own = (principal.tenant_id, principal.agent_id, principal.session_id)
    if source_id == (target_id or unit_id_for(*own, target_key)):
        raise InvalidArgument(
            ErrorReason.SELF_LOOP, f"{where} points to its own unit: an edge joins two units", field=f"{where}.{target}"
        )
    return RelationDraft(
        edge_type=EDGE_TYPES.to_domain(relation.edge_type, f"{where}.edge_type"),
        target_id=target_id,
        target_key=target_key,
        role=optional_name(relation.role, f"{where}.role"),
        weight=relation.weight if relation.HasField("weight") else 1.0,
    )


def _tool_call(call: core_pb2.ToolCall, where: str) -> units.ToolCall:
    field = f"{where}.arguments_json"
    arguments = call.arguments_json or "{}"
    if len(arguments.encode()) > MAX_ARGUMENTS_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{field} is larger than {MAX_ARGUMENTS_BYTES} bytes",
            field=field,
            limit=MAX_ARGUMENTS_BYTES,
        )
    if not _is_json_object(arguments):
        raise InvalidArgument(ErrorReason.FIELD_INVALID, f"{field} must be a JSON object", field=field)
    return units.ToolCall(
        call_id=required_name(call.call_id, f"{where}.call_id"),
        name=required_name(call.name, f"{where}.name"),
        arguments_json=arguments,
    )


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(cast("object", json.loads(text, parse_constant=_refuse_constant)), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> object:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _embedding(numbers: Sequence[float], field: str) -> tuple[float, ...] | None:
    if len(numbers) > MAX_EMBEDDING_DIMENSIONS:
        raise InvalidArgument(
            ErrorReason.EMBEDDING_INVALID,
            f"{field} has {len(numbers)} numbers, more than any index takes",
            field=field,
            limit=MAX_EMBEDDING_DIMENSIONS,
        )
    return tuple(numbers) or None


def _budget_draft(budget: retrieval_service_pb2.RetrievalBudget) -> BudgetDraft:
    given = budget.WhichOneof("budget")
    if given is None:
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED,
            "budget is required: total_step_budget or retrieval_budget, in tokens",
            field="budget",
        )
    if given == "total_step_budget":
        return BudgetDraft(
            total_step_budget=budget.total_step_budget,
            harness_overhead=budget.harness_overhead,
            reasoning_reserve_ratio=budget.reasoning_reserve_ratio
            if budget.HasField("reasoning_reserve_ratio")
            else None,
            harness_texts=_harness_texts(budget.harness_texts),
            **_forecast(budget),
        )
    for name, is_set in (
        ("harness_overhead", budget.harness_overhead != 0),
        ("reasoning_reserve_ratio", budget.HasField("reasoning_reserve_ratio")),
        ("harness_texts", bool(budget.harness_texts)),
        ("expected_steps", budget.expected_steps != 0),
        ("session_tokens_remaining", budget.session_tokens_remaining != 0),
    ):
        if is_set:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID,
                f"{name} goes with total_step_budget: a retrieval_budget is taken as it is",
                field=f"budget.{name}",
            )
    return BudgetDraft(retrieval_budget=budget.retrieval_budget)


def _harness_texts(texts: Sequence[str]) -> tuple[str, ...]:
    size = sum(len(text.encode(errors="replace")) for text in texts)
    if len(texts) > MAX_HARNESS_TEXTS or size > MAX_HARNESS_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"harness_texts are at most {MAX_HARNESS_TEXTS} texts of {MAX_HARNESS_BYTES} bytes in all: count them "
            "yourself and send harness_overhead",
            field="budget.harness_texts",
            limit=MAX_HARNESS_BYTES,
        )
    return tuple(texts)


class _Forecast(TypedDict):
    expected_steps: int
    session_tokens_remaining: int


def _forecast(budget: retrieval_service_pb2.RetrievalBudget) -> _Forecast:
    if not 0 <= budget.expected_steps <= MAX_EXPECTED_STEPS:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID,
            f"expected_steps must be 1 to {MAX_EXPECTED_STEPS}, or unset",
            field="budget.expected_steps",
        )
    if budget.session_tokens_remaining < 0:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID,
            "session_tokens_remaining must be 0 or more tokens",
            field="budget.session_tokens_remaining",
        )
    if budget.session_tokens_remaining and not budget.expected_steps:
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED,
            "session_tokens_remaining goes with expected_steps: without it there is nothing to project",
            field="budget.expected_steps",
        )
    return {
        "expected_steps": budget.expected_steps,
        "session_tokens_remaining": budget.session_tokens_remaining,
    }


def _directions(
    follow: Sequence[retrieval_service_pb2.EdgeFilter],
) -> dict[units.EdgeType, units.Direction]:
    """Directions by edge type; a type named twice with different directions is followed both ways."""
    directions: dict[units.EdgeType, units.Direction] = {}
    for index, one in enumerate(follow):
        edge_type = EDGE_TYPES.to_domain(one.edge_type, f"follow[{index}].edge_type")
        direction = (
            DIRECTIONS.to_domain(one.direction, f"follow[{index}].direction") if one.direction else units.Direction.BOTH
        )
        same = directions.get(edge_type, direction) is direction
        directions[edge_type] = direction if same else units.Direction.BOTH
    return directions


def _ledger_message(ledger: Ledger) -> retrieval_service_pb2.BudgetLedger:
    budget = ledger.budget
    return retrieval_service_pb2.BudgetLedger(
        total_step_budget=budget.total_step_budget or 0,
        harness_overhead=budget.harness_overhead,
        reasoning_reserve=budget.reasoning_reserve,
        retrieval_budget=budget.retrieval_budget,
        ranking_charge=ledger.ranking_charge,
        tokens_spent=ledger.tokens_spent,
        budget_remaining=ledger.budget_remaining,
        candidates_selected=ledger.candidates_selected,
        candidates_deferred=ledger.candidates_deferred,
        threshold_factor=budget.threshold_factor,
    )


def _candidate_message(ranked: candidates.RankedCandidate) -> retrieval_service_pb2.RankedCandidate:
    candidate = ranked.candidate
    path = candidate.path
    return retrieval_service_pb2.RankedCandidate(
        unit_id=candidate.entry.unit_id,
        unit_key=candidate.entry.unit_key,
        kind=KINDS.to_proto(candidate.entry.kind),
        path=candidate.entry.path,
        rank=ranked.rank,
        value=ranked.valuation.value,
        cost=ranked.cost,
        value_cost_ratio=ranked.value_cost_ratio,
        disposition=DISPOSITIONS.to_proto(ranked.disposition),
        detail=ranked.detail,
        sources=[SOURCES.to_proto(source) for source in candidates.CandidateSource if source in candidate.sources],
        graph_path=None
        if path is None
        else retrieval_service_pb2.GraphPath(
            hop_count=path.hop_count,
            edge_types=[EDGE_TYPES.to_proto(edge_type) for edge_type in path.edge_types],
            unit_ids=path.unit_ids,
            edge_type_match=path.edge_type_match,
        ),
        topic_score=candidate.topic_score,
        full_text_score=candidate.full_text_score,
        vector_score=candidate.vector_score,
        intercept=ranked.valuation.intercept,
        contributions=[
            retrieval_service_pb2.FeatureContribution(
                feature=one.feature, raw=one.raw, scaled=one.scaled, weight=one.weight, logit=one.logit
            )
            for one in ranked.valuation.contributions
        ],
        superseded_by=candidate.superseded_by,
        companion_unit_ids=candidate.companion_ids,
    )
