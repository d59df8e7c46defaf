"""The Python client: GraphsvcClient (async) and GraphsvcClientSync, its twin for code without an event loop.

    async with GraphsvcClient("localhost:50051", api_key="gsk_...") as client:
        session = client.session("s1", model="gpt-5")
        await session.put([UnitInput("decision", "Use UTC everywhere.")])
        answer = await session.retrieve("which time zone?", total_step_budget=8_000)

A read sees this client's own writes unless told otherwise. Calls are tried again on UNAVAILABLE only, a write under the
same request_id, so that it happens once.
"""

from __future__ import annotations

import asyncio
import functools
import random
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from graphsvc.domain.candidates import CandidateSource, Contribution, Disposition, Outcome
from graphsvc.domain.outcomes import ReferenceMethod, UnitOutcome
from graphsvc.domain.predictors import CalibrationReport, CalibrationSlice, Evaluation, ReferenceRate
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import (
    ContextUnitKind,
    Direction,
    EdgeType,
    EpistemicStatus,
    Relation,
    Tier,
    ToolCall,
)
from graphsvc.v1 import (
    context_service_pb2,
    context_service_pb2_grpc,
    core_pb2,
    predictor_service_pb2,
    predictor_service_pb2_grpc,
    registry_service_pb2,
    registry_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)

DEFAULT_TIMEOUT_S: Final = 30.0
MAX_ATTEMPTS: Final = 4
"""Tries of one call, the first included."""
FIRST_BACKOFF_S: Final = 0.1
MAX_BACKOFF_S: Final = 2.0
"""Longest wait between two tries; a server's RetryInfo wins over it."""

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=Message)


# ---- what is sent ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the server.

    Attributes:
        root_certificates: PEM; None: the system's.
        server_name: the name the certificate has, if it is not the target's.
    """

    root_certificates: bytes | None = None
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class RelationInput:
    """A typed edge to write; exactly one of target_id and target_key (a key in the same agent and session) is set."""

    edge_type: EdgeType | str
    target_id: str = ""
    target_key: str = ""
    role: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class UnitInput:
    """A unit to write; the fields are those of message ContextUnit.

    Attributes:
        kind: one of ContextUnitKind, or its value such as "decision".
        unit_key: the writer's own name for it; empty: the service derives one from the request.
        timestamp: when it became true (aware); None: now.
    """

    kind: ContextUnitKind | str
    content: str
    unit_key: str = ""
    timestamp: datetime | None = None
    task_step: int = 0
    task_id: str = ""
    epistemic_status: EpistemicStatus | str = EpistemicStatus.TENTATIVE
    provenance: Sequence[str] = ()
    relations: Sequence[RelationInput] = ()
    path: str = ""
    model: str = ""
    pinned: bool = False
    tool_call: ToolCall | None = None
    vendor_state: bytes = b""
    embedding: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class EdgeInput:
    """An edge to add or remove, from one of the caller's own units."""

    source_id: str
    relation: RelationInput


@dataclass(frozen=True, slots=True)
class SessionScope:
    """The agent's session that calls work in, and the model it runs on."""

    session_id: str
    model: str = ""


# ---- what comes back ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """What became of one unit of a put."""

    unit_id: str
    unit_key: str
    created: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as the service has it; content is empty where it was not asked for."""

    unit_id: str
    unit_key: str
    kind: ContextUnitKind
    content: str
    timestamp: datetime
    created_time: datetime
    agent_id: str
    session_id: str
    task_id: str
    task_step: int
    epistemic_status: EpistemicStatus
    provenance: tuple[str, ...]
    relevance_score: float
    tier: Tier
    relations: tuple[Relation, ...]
    path: str
    model: str
    pinned: bool
    tool_call: ToolCall | None
    vendor_state: bytes
    content_sha256: str
    size_bytes: int
    token_counts: Mapping[str, int]
    superseded_by: str


@dataclass(frozen=True, slots=True)
class Found:
    """Units looked up by id: the visible ones in the given order, and the ids that are absent or not visible."""

    units: tuple[Unit, ...]
    missing_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A shortest path from an anchor, the anchor first."""

    hop_count: int
    edge_types: tuple[EdgeType, ...]
    unit_ids: tuple[str, ...]
    edge_type_match: float


@dataclass(frozen=True, slots=True)
class RankedUnit:
    """A candidate with its scores, and what became of it. None: that search did not find it."""

    unit_id: str
    unit_key: str
    kind: ContextUnitKind
    path: str
    rank: int
    value: float
    cost: int
    value_cost_ratio: float
    disposition: Disposition
    detail: str
    sources: frozenset[CandidateSource]
    graph_path: Path | None
    topic_score: float
    full_text_score: float | None
    vector_score: float | None
    intercept: float
    contributions: tuple[Contribution, ...]
    superseded_by: str
    companion_unit_ids: tuple[str, ...] = ()
    """Units it cannot be read without: selected with it, or neither is."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Where the tokens of a retrieval went; all counts are tokens."""

    total_step_budget: int
    harness_overhead: int
    reasoning_reserve: int
    retrieval_budget: int
    ranking_charge: int
    tokens_spent: int
    budget_remaining: int
    candidates_selected: int
    candidates_deferred: int
    threshold_factor: float = 1.0
    """What both value thresholds were multiplied with: above 1 when the session's tokens run short."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The answer of a retrieval: ``payload`` is ready to inject; ``outcome`` says why it is empty if it is."""

    retrieval_id: str
    outcome: Outcome
    outcome_detail: str
    payload: str
    units: tuple[Unit, ...]
    candidates: tuple[RankedUnit, ...]
    candidate_count: int
    ledger: Spending
    strategy: str
    anchor_ids: tuple[str, ...]
    partial: bool
    encoding: str
    query_fingerprint: str
    duration_ms: float
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A retrieval read back, with every candidate."""

    retrieval_id: str
    query: str
    query_fingerprint: str
    task_id: str
    task_step: int
    created_time: datetime
    strategy: str
    outcome: Outcome
    ledger: Spending
    partial: bool
    candidates: tuple[RankedUnit, ...]
    duration_ms: float


@dataclass(frozen=True, slots=True)
class ReportedOutcome:
    """The verdicts on the delivered units, in payload order; replayed: an earlier report, the same, had given them."""

    outcomes: tuple[UnitOutcome, ...]
    replayed: bool

    @property
    def referenced_ids(self) -> tuple[str, ...]:
        """Ids of the units that were referenced."""
        return tuple(one.unit_id for one in self.outcomes if one.referenced)


@dataclass(frozen=True, slots=True)
class CallerInfo:
    """Who the credentials say the caller is."""

    tenant_id: str
    agent_id: str
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """A share; owner_agent_id "*": every agent's; other empty names: any."""

    policy_id: str
    owner_agent_id: str
    owner_session_id: str
    grantee_agent_id: str
    grantee_session_id: str
    kinds: frozenset[ContextUnitKind]
    created_time: datetime
    created_by: str
    expires_time: datetime | None


@dataclass(frozen=True, slots=True)
class PredictorInfo:
    """A version of the tenant's predictor; ``report`` says how it was measured, and why it was adopted or not."""

    version: int
    created_time: datetime
    prior_version: str
    intercept: float
    weights: Mapping[str, float]
    reference_rates: Mapping[ContextUnitKind, float]
    adopted: bool
    in_use: bool
    report: CalibrationReport


@dataclass(frozen=True, slots=True)
class RecalibrationInfo:
    """What a recalibration did; without a predictor: nothing, and detail says why."""

    predictor: PredictorInfo | None
    detail: str
    replayed: bool


class GraphsvcCallError(Exception):
    """A call that failed.

    Attributes:
        code: gRPC code by name, such as "NOT_FOUND".
        reason: of domain "graphsvc", such as "UNIT_NOT_FOUND"; empty when the failure is not the service's own.
        message: what is wrong and what to do.
        metadata: short facts.
        field_violations: description by field path.
        retry_delay_s: when to try again, s; None: not said.
        request_id: names the call in the service's log; empty when no answer came.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        field_violations: Mapping[str, str] | None = None,
        retry_delay_s: float | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(f"{code}{f' ({reason})' if reason else ''}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.field_violations = dict(field_violations or {})
        self.retry_delay_s = retry_delay_s
        self.request_id = request_id


# ---- the client -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Connection:
    """A channel and what is called over it; made on the event loop it is used on."""

    channel: grpc.aio.Channel
    context: Any
    retrieval: Any
    registry: Any
    predictor: Any


class GraphsvcClient:
    """Calls the service. Use it as an async context manager, or call :meth:`close`.

    Every method raises GraphsvcCallError when the service refuses or does not answer in time.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str,
        tls: Tls | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_attempts: int = MAX_ATTEMPTS,
        read_your_writes: bool = True,
    ) -> None:
        """Keeps the address; the connection is made by the first call.

        Args:
            target: "host:port".
            api_key: "gsk_...", from ``graphsvc key create``.
            tls: None: plaintext, for a server on this machine.
            timeout_s: of one call with its retries, s, above 0.
            max_attempts: tries of one call on UNAVAILABLE, 1 or more.
            read_your_writes: reads ask for at least the revision of this client's last write.
        """
        self._target = target
        self._authorization = ("authorization", f"Bearer {api_key}")
        self._tls = tls
        self._timeout_s = timeout_s
        self._max_attempts = max_attempts
        self._read_your_writes = read_your_writes
        self._connection: _Connection | None = None
        self.last_revision = ""
        """Token of the last write that was answered; hand it to another client to let it see the write."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Returns when the connection is closed; calls under way are cancelled."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.channel.close(None)

    def session(self, session_id: str, *, model: str = "") -> ClientSession:
        """The calls that work in a session, bound to it.

        Args:
            session_id: the agent's own session, 1 to 256 bytes.
            model: the model it runs on; decides how tokens are counted; empty: the service's default.
        """
        return ClientSession(self, SessionScope(session_id, model))

    async def put(
        self, session: SessionScope | str, units: Iterable[UnitInput], *, request_id: str = ""
    ) -> tuple[PutOutcome, ...]:
        """What became of each unit, in order; all are stored, durably, or none.

        Args:
            session: whose units they are.
            units: 1 to 1000.
            request_id: the same one again changes nothing; empty: a new one.
        """
        scope = _scope(session)
        request = context_service_pb2.PutUnitsRequest(
            request_id=request_id or _new_id(),
            session_id=scope.session_id,
            model=scope.model,
            units=[_unit_message(unit) for unit in units],
        )
        response = await self._write(lambda at: at.context.PutUnits, request, context_service_pb2.PutUnitsResponse)
        return tuple(
            PutOutcome(one.unit_id, one.unit_key, one.status == context_service_pb2.WRITE_STATUS_CREATED)
            for one in response.results
        )

    async def get(
        self, session: SessionScope | str, unit_ids: Iterable[str], *, with_content: bool = True, revision: str = ""
    ) -> Found:
        """The visible ones of these units, in the given order.

        Args:
            session: the session the call works in.
            unit_ids: 1 to 1000.
            with_content: fetch the content too.
            revision: the read sees at least this one; empty: this client's last write.
        """
        request = context_service_pb2.GetUnitsRequest(
            session_id=_scope(session).session_id,
            unit_ids=list(unit_ids),
            without_content=not with_content,
            consistency=self._consistency(revision),
        )
        response = await self._call(lambda at: at.context.GetUnits, request, context_service_pb2.GetUnitsResponse)
        return Found(tuple(_unit(one) for one in response.units), tuple(response.missing_ids))

    async def list(
        self,
        session: SessionScope | str,
        *,
        kinds: Iterable[ContextUnitKind | str] = (),
        owner_agent_id: str = "",
        owner_session_id: str = "",
        task_id: str = "",
        path_prefix: str = "",
        current_only: bool = False,
        with_content: bool = False,
        page_size: int = 0,
        revision: str = "",
    ) -> AsyncIterator[Unit]:
        """Visible units by created_time, then unit_id; pages are fetched as they are needed.

        Args:
            session: the session the call works in.
            kinds: any of these; none: all.
            owner_agent_id: units of this agent only; empty: any.
            owner_session_id: units of this session only; empty: any.
            task_id: units of this task only; empty: any.
            path_prefix: units whose path begins so; empty: any.
            current_only: leave out superseded units.
            with_content: fetch the content too.
            page_size: units fetched at once, 1 to 1000; 0: the service's default.
            revision: as in :meth:`get`.
        """
        request = context_service_pb2.ListUnitsRequest(
            session_id=_scope(session).session_id,
            kinds=[_kind_number(kind) for kind in kinds],
            owner_agent_id=owner_agent_id,
            owner_session_id=owner_session_id,
            task_id=task_id,
            path_prefix=path_prefix,
            current_only=current_only,
            page_size=page_size,
            with_content=with_content,
            consistency=self._consistency(revision),
        )
        while True:
            page = await self._call(lambda at: at.context.ListUnits, request, context_service_pb2.ListUnitsResponse)
            for unit in page.units:
                yield _unit(unit)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def delete(
        self, session: SessionScope | str, unit_ids: Iterable[str], *, request_id: str = ""
    ) -> tuple[str, ...]:
        """Ids of the own units removed for good; absent ones are no error.

        Args:
            session: whose units they are.
            unit_ids: 1 to 1000.
            request_id: as in :meth:`put`.
        """
        request = context_service_pb2.DeleteUnitsRequest(
            request_id=request_id or _new_id(), session_id=_scope(session).session_id, unit_ids=list(unit_ids)
        )
        response = await self._write(
            lambda at: at.context.DeleteUnits, request, context_service_pb2.DeleteUnitsResponse
        )
        return tuple(response.deleted_ids)

    async def link(
        self, session: SessionScope | str, edges: Iterable[EdgeInput], *, request_id: str = ""
    ) -> tuple[bool, ...]:
        """Whether each edge is new, in order; all are there afterwards, or none was added.

        Args:
            session: whose units the sources are.
            edges: 1 to 1000.
            request_id: as in :meth:`put`.
        """
        request = context_service_pb2.LinkUnitsRequest(
            request_id=request_id or _new_id(),
            session_id=_scope(session).session_id,
            edges=[_edge_message(edge) for edge in edges],
        )
        response = await self._write(lambda at: at.context.LinkUnits, request, context_service_pb2.LinkUnitsResponse)
        return tuple(one == context_service_pb2.WRITE_STATUS_CREATED for one in response.statuses)

    async def unlink(self, session: SessionScope | str, edges: Iterable[EdgeInput], *, request_id: str = "") -> int:
        """How many of the edges there were; none is there afterwards.

        Args:
            session: whose units the sources are.
            edges: 1 to 1000; source, target, type and role name an edge.
            request_id: as in :meth:`put`.
        """
        request = context_service_pb2.UnlinkUnitsRequest(
            request_id=request_id or _new_id(),
            session_id=_scope(session).session_id,
            edges=[_edge_message(edge) for edge in edges],
        )
        response = await self._write(
            lambda at: at.context.UnlinkUnits, request, context_service_pb2.UnlinkUnitsResponse
        )
        return response.removed_count

    async def retrieve(
        self,
        session: SessionScope | str,
        query: str = "",
        *,
        total_step_budget: int | None = None,
        retrieval_budget: int | None = None,
        harness_overhead: int = 0,
        reasoning_reserve_ratio: float | None = None,
        harness_texts: Iterable[str] = (),
        expected_steps: int = 0,
        session_tokens_remaining: int = 0,
        task_step: int = 0,
        task_id: str = "",
        anchor_unit_ids: Iterable[str] = (),
        follow: Mapping[EdgeType | str, Direction | str] | Iterable[EdgeType | str] = (),
        wanted_edge_types: Iterable[EdgeType | str] = (),
        max_hops: int = 0,
        kinds: Iterable[ContextUnitKind | str] = (),
        as_of: datetime | None = None,
        query_embedding: Sequence[float] = (),
        max_described_candidates: int | None = None,
        revision: str = "",
    ) -> Retrieval:
        """The units worth their tokens within the budget, rendered. An empty answer is no error: see its outcome.

        Args:
            session: the session the call works in, with the model the payload is for.
            query: what is wanted, in words; needed unless a task or an anchor is given.
            total_step_budget: tokens of the whole step; give this or retrieval_budget.
            retrieval_budget: tokens to inject at most.
            harness_overhead: with total_step_budget: tokens sent besides.
            reasoning_reserve_ratio: with total_step_budget: share kept for reasoning; None: the service's.
            harness_texts: with total_step_budget: texts sent besides (system prompt, tool definitions), counted by the
                service and added to harness_overhead.
            expected_steps: with total_step_budget: steps the session is expected to take in all; 0: nothing is
                projected.
            session_tokens_remaining: tokens the session has left; goes with expected_steps.
            task_step: the step in the session, from 0.
            task_id: the task to start from.
            anchor_unit_ids: units to start from, at most 32.
            follow: edge types that may be followed, with their directions if a mapping; none: all, both ways.
            wanted_edge_types: edge types that count as a match; none: those that may be followed.
            max_hops: 1 to 4; 0: the service's default.
            kinds: only these; none: all.
            as_of: the graph as of this time (aware); None: now.
            query_embedding: the query's own vector; empty: the service embeds the query.
            max_described_candidates: 0 to 1000; None: the service's default.
            revision: as in :meth:`get`.
        """
        scope = _scope(session)
        request = retrieval_service_pb2.RetrieveRequest(
            session_id=scope.session_id,
            task_step=task_step,
            model=scope.model,
            query=query,
            query_embedding=query_embedding,
            task_id=task_id,
            anchor_unit_ids=list(anchor_unit_ids),
            follow=_edge_filters(follow),
            wanted_edge_types=[_edge_type_number(one) for one in wanted_edge_types],
            max_hops=max_hops,
            budget=_budget_message(
                total_step_budget=total_step_budget,
                retrieval_budget=retrieval_budget,
                harness_overhead=harness_overhead,
                reasoning_reserve_ratio=reasoning_reserve_ratio,
                harness_texts=list(harness_texts),
                expected_steps=expected_steps,
                session_tokens_remaining=session_tokens_remaining,
            ),
            kinds=[_kind_number(kind) for kind in kinds],
            as_of=None if as_of is None else _timestamp(as_of),
            consistency=self._consistency(revision),
            max_described_candidates=max_described_candidates,
        )
        # no write of the caller's, so its revision is not remembered: a read need not wait for it
        response = await self._call(lambda at: at.retrieval.Retrieve, request, retrieval_service_pb2.RetrieveResponse)
        return _retrieval(response)

    async def explain(self, session: SessionScope | str, retrieval_id: str, *, revision: str = "") -> Explanation:
        """What a retrieval of this session decided, with every candidate.

        Args:
            session: the session that retrieved.
            retrieval_id: of the retrieval.
            revision: as in :meth:`get`.
        """
        request = retrieval_service_pb2.ExplainRetrievalRequest(
            session_id=_scope(session).session_id, retrieval_id=retrieval_id, consistency=self._consistency(revision)
        )
        response = await self._call(
            lambda at: at.retrieval.ExplainRetrieval, request, retrieval_service_pb2.ExplainRetrievalResponse
        )
        return _explanation(response)

    async def report_outcome(
        self,
        session: SessionScope | str,
        retrieval_id: str,
        output: str = "",
        *,
        cited_unit_ids: Iterable[str] = (),
        decisive_unit_ids: Iterable[str] = (),
        request_id: str = "",
    ) -> ReportedOutcome:
        """Which delivered units the model's output referenced. The same report again changes nothing.

        Args:
            session: the session that retrieved.
            retrieval_id: of the retrieval.
            output: the model's text and tool-call arguments, at most 1 MiB; needed unless a unit is named.
            cited_unit_ids: delivered units known to be cited, at most 1000.
            decisive_unit_ids: delivered units that changed the decision, at most 1000.
            request_id: as in :meth:`put`.
        """
        request = retrieval_service_pb2.ReportOutcomeRequest(
            session_id=_scope(session).session_id,
            retrieval_id=retrieval_id,
            request_id=request_id or _new_id(),
            output=output,
            cited_unit_ids=list(cited_unit_ids),
            decisive_unit_ids=list(decisive_unit_ids),
        )
        response = await self._write(
            lambda at: at.retrieval.ReportOutcome, request, retrieval_service_pb2.ReportOutcomeResponse
        )
        return ReportedOutcome(
            tuple(
                UnitOutcome(one.unit_id, tuple(_reference_method(method) for method in one.methods), one.evidence)
                for one in response.outcomes
            ),
            response.replayed,
        )

    async def get_principal(self) -> CallerInfo:
        """Who the credentials say the caller is."""
        response = await self._call(
            lambda at: at.registry.GetPrincipal,
            registry_service_pb2.GetPrincipalRequest(),
            registry_service_pb2.GetPrincipalResponse,
        )
        roles = frozenset(Role[registry_service_pb2.Role.Name(role).removeprefix("ROLE_")] for role in response.roles)
        return CallerInfo(response.tenant_id, response.agent_id, roles)

    async def create_policy(
        self,
        *,
        owner_agent_id: str = "",
        owner_session_id: str = "",
        grantee_agent_id: str = "",
        grantee_session_id: str = "",
        kinds: Iterable[ContextUnitKind | str] = (),
        expires_time: datetime | None = None,
        request_id: str = "",
    ) -> PolicyInfo:
        """The share made.

        Args:
            owner_agent_id: whose units; empty: the caller's own; "*": every agent's (admin).
            owner_session_id: of which session; empty: every one.
            grantee_agent_id: who may see them; empty: every agent of the tenant.
            grantee_session_id: in which session; empty: every one.
            kinds: which; none: decision and constraint only.
            expires_time: from when it no longer holds (aware); None: never ends.
            request_id: as in :meth:`put`.
        """
        request = registry_service_pb2.CreatePolicyRequest(
            request_id=request_id or _new_id(),
            policy=registry_service_pb2.Policy(
                owner_agent_id=owner_agent_id,
                owner_session_id=owner_session_id,
                grantee_agent_id=grantee_agent_id,
                grantee_session_id=grantee_session_id,
                kinds=[_kind_number(kind) for kind in kinds],
                expires_time=None if expires_time is None else _timestamp(expires_time),
            ),
        )
        response = await self._write(
            lambda at: at.registry.CreatePolicy, request, registry_service_pb2.CreatePolicyResponse
        )
        return _policy(response.policy)

    async def list_policies(self, *, page_size: int = 0, revision: str = "") -> AsyncIterator[PolicyInfo]:
        """Policies the caller owns or that grant it something (an admin: all), by created_time, then policy_id.

        Args:
            page_size: as in :meth:`list`.
            revision: as in :meth:`get`.
        """
        request = registry_service_pb2.ListPoliciesRequest(page_size=page_size, consistency=self._consistency(revision))
        while True:
            page = await self._call(
                lambda at: at.registry.ListPolicies, request, registry_service_pb2.ListPoliciesResponse
            )
            for policy in page.policies:
                yield _policy(policy)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def delete_policy(self, policy_id: str, *, request_id: str = "") -> None:
        """Returns when the policy has ended.

        Args:
            policy_id: of a policy of the caller's own (an admin: any).
            request_id: as in :meth:`put`.
        """
        request = registry_service_pb2.DeletePolicyRequest(request_id=request_id or _new_id(), policy_id=policy_id)
        await self._write(lambda at: at.registry.DeletePolicy, request, registry_service_pb2.DeletePolicyResponse)

    async def recalibrate(self, *, force: bool = False, request_id: str = "") -> RecalibrationInfo:
        """What was fitted to the tenant's feedback; in use if it is better (role admin).

        Args:
            force: fit although it is not due.
            request_id: as in :meth:`put`.
        """
        request = predictor_service_pb2.RecalibratePredictorRequest(request_id=request_id or _new_id(), force=force)
        response = await self._write(
            lambda at: at.predictor.RecalibratePredictor, request, predictor_service_pb2.RecalibratePredictorResponse
        )
        return RecalibrationInfo(
            _predictor(response.predictor) if response.HasField("predictor") else None,
            response.detail,
            response.replayed,
        )

    async def list_predictors(self, *, page_size: int = 0, revision: str = "") -> AsyncIterator[PredictorInfo]:
        """The tenant's predictors, the newest first; with none of them in use, the shared prior is (role admin).

        Args:
            page_size: as in :meth:`list`.
            revision: as in :meth:`get`.
        """
        request = predictor_service_pb2.ListPredictorsRequest(
            page_size=page_size, consistency=self._consistency(revision)
        )
        while True:
            page = await self._call(
                lambda at: at.predictor.ListPredictors, request, predictor_service_pb2.ListPredictorsResponse
            )
            for predictor in page.predictors:
                yield _predictor(predictor)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def roll_back_predictor(self, version: int, *, request_id: str = "") -> int:
        """Puts a version in use; gives the version in use before (role admin).

        Args:
            version: any of the tenant's; 0: the shared prior.
            request_id: as in :meth:`put`.
        """
        request = predictor_service_pb2.RollBackPredictorRequest(request_id=request_id or _new_id(), version=version)
        response = await self._write(
            lambda at: at.predictor.RollBackPredictor, request, predictor_service_pb2.RollBackPredictorResponse
        )
        return response.previous_version

    def _consistency(self, revision: str) -> core_pb2.Consistency | None:
        token = revision or (self.last_revision if self._read_your_writes else "")
        if not token:
            return None
        return core_pb2.Consistency(at_least_as_fresh=core_pb2.RevisionToken(token=token))

    async def _write(self, method: Callable[[_Connection], Any], request: Message, answer: type[M]) -> M:
        response = await self._call(method, request, answer)
        # None where nothing was to be written.
        self.last_revision = cast("Any", response).revision.token or self.last_revision
        return response

    async def _call(self, method: Callable[[_Connection], Any], request: Message, answer: type[M]) -> M:
        """The response; tries again on UNAVAILABLE, as long as the timeout lasts, always under one request id."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        call_id = _new_id()
        metadata = (self._authorization, ("x-request-id", call_id))
        attempt = 1
        while True:
            send = cast("Callable[..., Awaitable[M]]", method(self._connected()))
            try:
                return await send(request, timeout=max(0.001, deadline - loop.time()), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                failure = _failure(error)
            delay = failure.retry_delay_s
            if delay is None:
                delay = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
            if failure.code != "UNAVAILABLE" or attempt >= self._max_attempts or loop.time() + delay >= deadline:
                raise failure
            attempt += 1
            await asyncio.sleep(delay)

    def _connected(self) -> _Connection:
        if self._connection is None:
            channel = _channel(self._target, self._tls)
            self._connection = _Connection(
                channel=channel,
                context=cast("Any", context_service_pb2_grpc).ContextServiceStub(channel),
                retrieval=cast("Any", retrieval_service_pb2_grpc).RetrievalServiceStub(channel),
                registry=cast("Any", registry_service_pb2_grpc).RegistryServiceStub(channel),
                predictor=cast("Any", predictor_service_pb2_grpc).PredictorServiceStub(channel),
            )
        return self._connection


def _in_session(
    method: Callable[Concatenate[GraphsvcClient, SessionScope | str, P], R],
) -> Callable[Concatenate[ClientSession, P], R]:
    """The client's method with the session filled in."""

    @functools.wraps(method)
    def bound(self: ClientSession, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.client, self.scope, *args, **kwargs)

    return bound


class ClientSession:
    """The client's calls that work in a session, bound to one."""

    def __init__(self, client: GraphsvcClient, scope: SessionScope) -> None:
        self.client = client
        self.scope = scope

    put = _in_session(GraphsvcClient.put)
    get = _in_session(GraphsvcClient.get)
    list = _in_session(GraphsvcClient.list)
    delete = _in_session(GraphsvcClient.delete)
    link = _in_session(GraphsvcClient.link)
    unlink = _in_session(GraphsvcClient.unlink)
    retrieve = _in_session(GraphsvcClient.retrieve)
    explain = _in_session(GraphsvcClient.explain)
    report_outcome = _in_session(GraphsvcClient.report_outcome)


# ---- the sync twin --------------------------------------------------------------------------------------------------


class _LoopThread:
    """An event loop on a thread of its own, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="graphsvc-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of a coroutine; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[R]) -> Iterator[R]:
        """The items of an async iterator, fetched as they are needed."""

        async def step() -> tuple[R] | None:
            try:
                return (await anext(items),)
            except StopAsyncIteration:
                return None

        while (item := self.run(step())) is not None:
            yield item[0]

    def stop(self) -> None:
        """Returns when the thread has ended."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _waiting(
    method: Callable[Concatenate[GraphsvcClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[GraphsvcClientSync, P], R]:
    """The client's method, waited for."""

    @functools.wraps(method)
    def bound(self: GraphsvcClientSync, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.thread.run(method(self.client, *args, **kwargs))

    return cast("Callable[Concatenate[GraphsvcClientSync, P], R]", bound)


def _iterating(
    method: Callable[Concatenate[GraphsvcClient, P], AsyncIterator[R]],
) -> Callable[Concatenate[GraphsvcClientSync, P], Iterator[R]]:
    """The client's listing as an iterator."""

    @functools.wraps(method)
    def bound(self: GraphsvcClientSync, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return self.thread.iterate(method(self.client, *args, **kwargs))

    return cast("Callable[Concatenate[GraphsvcClientSync, P], Iterator[R]]", bound)


class GraphsvcClientSync:
    """GraphsvcClient for code without an event loop: the same calls, arguments and errors. Thread-safe."""

    def __init__(
        self,
        target: str,
        *,
        api_key: str,
        tls: Tls | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_attempts: int = MAX_ATTEMPTS,
        read_your_writes: bool = True,
    ) -> None:
        """Starts the thread the calls run on.

        Args:
            target: as GraphsvcClient.
            api_key: as GraphsvcClient.
            tls: as GraphsvcClient.
            timeout_s: as GraphsvcClient.
            max_attempts: as GraphsvcClient.
            read_your_writes: as GraphsvcClient.
        """
        self.client = GraphsvcClient(
            target,
            api_key=api_key,
            tls=tls,
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            read_your_writes=read_your_writes,
        )
        self.thread = _LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Returns when the connection is closed and the thread has ended."""
        self.thread.run(self.client.close())
        self.thread.stop()

    def session(self, session_id: str, *, model: str = "") -> ClientSessionSync:
        """As GraphsvcClient.session."""
        return ClientSessionSync(self, SessionScope(session_id, model))

    @property
    def last_revision(self) -> str:
        """As GraphsvcClient.last_revision."""
        return self.client.last_revision

    put = _waiting(GraphsvcClient.put)
    get = _waiting(GraphsvcClient.get)
    list = _iterating(GraphsvcClient.list)
    delete = _waiting(GraphsvcClient.delete)
    link = _waiting(GraphsvcClient.link)
    unlink = _waiting(GraphsvcClient.unlink)
    retrieve = _waiting(GraphsvcClient.retrieve)
    explain = _waiting(GraphsvcClient.explain)
    report_outcome = _waiting(GraphsvcClient.report_outcome)
    create_policy = _waiting(GraphsvcClient.create_policy)
    get_principal = _waiting(GraphsvcClient.get_principal)
    list_policies = _iterating(GraphsvcClient.list_policies)
    delete_policy = _waiting(GraphsvcClient.delete_policy)
    recalibrate = _waiting(GraphsvcClient.recalibrate)
    list_predictors = _iterating(GraphsvcClient.list_predictors)
    roll_back_predictor = _waiting(GraphsvcClient.roll_back_predictor)


def _in_session_sync(
    method: Callable[Concatenate[GraphsvcClientSync, SessionScope | str, P], R],
) -> Callable[Concatenate[ClientSessionSync, P], R]:
    """The sync client's method with the session filled in."""

    @functools.wraps(method)
    def bound(self: ClientSessionSync, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.client, self.scope, *args, **kwargs)

    return bound


class ClientSessionSync:
    """The sync client's calls that work in a session, bound to one."""

    def __init__(self, client: GraphsvcClientSync, scope: SessionScope) -> None:
        self.client = client
        self.scope = scope

    put = _in_session_sync(GraphsvcClientSync.put)
    get = _in_session_sync(GraphsvcClientSync.get)
    list = _in_session_sync(GraphsvcClientSync.list)
    delete = _in_session_sync(GraphsvcClientSync.delete)
    link = _in_session_sync(GraphsvcClientSync.link)
    unlink = _in_session_sync(GraphsvcClientSync.unlink)
    retrieve = _in_session_sync(GraphsvcClientSync.retrieve)
    explain = _in_session_sync(GraphsvcClientSync.explain)
    report_outcome = _in_session_sync(GraphsvcClientSync.report_outcome)


# ---- messages -------------------------------------------------------------------------------------------------------


def _channel(target: str, tls: Tls | None) -> grpc.aio.Channel:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", -1),  # the service limits its answers
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_retries", 0),  # the client's own retries know the reasons
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
    ]
    if tls is None:
        return cast("Any", grpc.aio).insecure_channel(target, options=options)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(tls.root_certificates)
    return cast("Any", grpc.aio).secure_channel(target, credentials, options=options)


def _new_id() -> str:
    return uuid.uuid4().hex


def _scope(session: SessionScope | str) -> SessionScope:
    return SessionScope(session) if isinstance(session, str) else session


def _kind_number(kind: ContextUnitKind | str) -> core_pb2.ContextUnitKind:
    return core_pb2.ContextUnitKind.Value(f"CONTEXT_UNIT_KIND_{ContextUnitKind(kind).name}")  # pyright: ignore[reportReturnType]


def _edge_type_number(edge_type: EdgeType | str) -> core_pb2.EdgeType:
    return core_pb2.EdgeType.Value(f"EDGE_TYPE_{EdgeType(edge_type).name}")  # pyright: ignore[reportReturnType]


def _timestamp(moment: datetime) -> Timestamp:
    if moment.tzinfo is None:
        raise ValueError("a time needs a time zone: datetime.now(UTC), for instance")
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def _relation_message(relation: RelationInput) -> core_pb2.Relation:
    return core_pb2.Relation(
        target_id=relation.target_id or None,
        target_key=None if relation.target_id else relation.target_key or None,
        edge_type=_edge_type_number(relation.edge_type),
        role=relation.role,
        weight=relation.weight,
    )


def _edge_message(edge: EdgeInput) -> context_service_pb2.UnitEdge:
    return context_service_pb2.UnitEdge(source_id=edge.source_id, relation=_relation_message(edge.relation))


def _unit_message(unit: UnitInput) -> core_pb2.ContextUnit:
    call = unit.tool_call
    status = EpistemicStatus(unit.epistemic_status)
    return core_pb2.ContextUnit(
        unit_key=unit.unit_key,
        kind=_kind_number(unit.kind),
        content=unit.content,
        timestamp=None if unit.timestamp is None else _timestamp(unit.timestamp),
        task_step=unit.task_step,
        epistemic_status=cast("Any", core_pb2.EpistemicStatus.Value(f"EPISTEMIC_STATUS_{status.name}")),
        provenance=unit.provenance,
        relations=[_relation_message(relation) for relation in unit.relations],
        path=unit.path,
        model=unit.model,
        pinned=unit.pinned,
        tool_call=None
        if call is None
        else core_pb2.ToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json),
        vendor_state=unit.vendor_state,
        task_id=unit.task_id,
        embedding=unit.embedding,
    )


def _edge_filters(
    follow: Mapping[EdgeType | str, Direction | str] | Iterable[EdgeType | str],
) -> list[retrieval_service_pb2.EdgeFilter]:
    pairs = (
        cast("Mapping[EdgeType | str, Direction | str]", follow).items()
        if isinstance(follow, Mapping)
        else ((edge_type, Direction.BOTH) for edge_type in follow)
    )
    return [
        retrieval_service_pb2.EdgeFilter(
            edge_type=_edge_type_number(edge_type),
            direction=cast("Any", core_pb2.Direction.Value(f"DIRECTION_{Direction(direction).name}")),
        )
        for edge_type, direction in pairs
    ]


def _budget_message(
    *, total_step_budget: int | None, retrieval_budget: int | None, **others: Any
) -> retrieval_service_pb2.RetrievalBudget:
    if total_step_budget is not None and retrieval_budget is not None:
        raise ValueError("give total_step_budget or retrieval_budget, not both")
    return retrieval_service_pb2.RetrievalBudget(
        total_step_budget=total_step_budget, retrieval_budget=retrieval_budget, **others
    )


def _time(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(UTC)


def _kind(number: core_pb2.ContextUnitKind) -> ContextUnitKind:
    return ContextUnitKind[core_pb2.ContextUnitKind.Name(number).removeprefix("CONTEXT_UNIT_KIND_")]


def _edge_type(number: core_pb2.EdgeType) -> EdgeType:
    return EdgeType[core_pb2.EdgeType.Name(number).removeprefix("EDGE_TYPE_")]


def _outcome(number: retrieval_service_pb2.RetrievalOutcome) -> Outcome:
    return Outcome[retrieval_service_pb2.RetrievalOutcome.Name(number).removeprefix("RETRIEVAL_OUTCOME_")]


def _reference_method(number: retrieval_service_pb2.ReferenceMethod) -> ReferenceMethod:
    return ReferenceMethod[retrieval_service_pb2.ReferenceMethod.Name(number).removeprefix("REFERENCE_METHOD_")]


def _unit(unit: core_pb2.ContextUnit) -> Unit:
    call = unit.tool_call
    return Unit(
        unit_id=unit.unit_id,
        unit_key=unit.unit_key,
        kind=_kind(unit.kind),
        content=unit.content,
        timestamp=_time(unit.timestamp),
        created_time=_time(unit.created_time),
        agent_id=unit.agent_id,
        session_id=unit.session_id,
        task_id=unit.task_id,
        task_step=unit.task_step,
        epistemic_status=EpistemicStatus[
            core_pb2.EpistemicStatus.Name(unit.epistemic_status).removeprefix("EPISTEMIC_STATUS_")
        ],
        provenance=tuple(unit.provenance),
        relevance_score=unit.relevance_score,
        tier=Tier[core_pb2.Tier.Name(unit.tier).removeprefix("TIER_")],
        relations=tuple(
            Relation(one.target_id, _edge_type(one.edge_type), one.role, one.weight) for one in unit.relations
        ),
        path=unit.path,
        model=unit.model,
        pinned=unit.pinned,
        tool_call=ToolCall(call.call_id, call.name, call.arguments_json) if unit.HasField("tool_call") else None,
        vendor_state=unit.vendor_state,
        content_sha256=unit.content_sha256,
        size_bytes=unit.size_bytes,
        token_counts=dict(unit.token_counts),
        superseded_by=unit.superseded_by,
    )


def _ranked(one: retrieval_service_pb2.RankedCandidate) -> RankedUnit:
    path = one.graph_path
    return RankedUnit(
        unit_id=one.unit_id,
        unit_key=one.unit_key,
        kind=_kind(one.kind),
        path=one.path,
        rank=one.rank,
        value=one.value,
        cost=one.cost,
        value_cost_ratio=one.value_cost_ratio,
        disposition=Disposition[retrieval_service_pb2.Disposition.Name(one.disposition).removeprefix("DISPOSITION_")],
        detail=one.detail,
        sources=frozenset(
            CandidateSource[retrieval_service_pb2.CandidateSource.Name(source).removeprefix("CANDIDATE_SOURCE_")]
            for source in one.sources
        ),
        graph_path=Path(
            path.hop_count,
            tuple(_edge_type(edge_type) for edge_type in path.edge_types),
            tuple(path.unit_ids),
            path.edge_type_match,
        )
        if one.HasField("graph_path")
        else None,
        topic_score=one.topic_score,
        full_text_score=one.full_text_score if one.HasField("full_text_score") else None,
        vector_score=one.vector_score if one.HasField("vector_score") else None,
        intercept=one.intercept,
        contributions=tuple(
            Contribution(part.feature, part.raw, part.scaled, part.weight) for part in one.contributions
        ),
        superseded_by=one.superseded_by,
        companion_unit_ids=tuple(one.companion_unit_ids),
    )


def _spending(ledger: retrieval_service_pb2.BudgetLedger) -> Spending:
    return Spending(
        total_step_budget=ledger.total_step_budget,
        harness_overhead=ledger.harness_overhead,
        reasoning_reserve=ledger.reasoning_reserve,
        retrieval_budget=ledger.retrieval_budget,
        ranking_charge=ledger.ranking_charge,
        tokens_spent=ledger.tokens_spent,
        budget_remaining=ledger.budget_remaining,
        candidates_selected=ledger.candidates_selected,
        candidates_deferred=ledger.candidates_deferred,
        threshold_factor=ledger.threshold_factor,
    )


def _retrieval(response: retrieval_service_pb2.RetrieveResponse) -> Retrieval:
    return Retrieval(
        retrieval_id=response.retrieval_id,
        outcome=_outcome(response.outcome),
        outcome_detail=response.outcome_detail,
        payload=response.payload,
        units=tuple(_unit(unit) for unit in response.units),
        candidates=tuple(_ranked(one) for one in response.candidates),
        candidate_count=response.candidate_count,
        ledger=_spending(response.ledger),
        strategy=response.strategy,
        anchor_ids=tuple(response.anchor_ids),
        partial=response.partial,
        encoding=response.encoding,
        query_fingerprint=response.query_fingerprint,
        duration_ms=response.duration_ms,
        notices=tuple(response.notices),
    )


def _explanation(response: retrieval_service_pb2.ExplainRetrievalResponse) -> Explanation:
    return Explanation(
        retrieval_id=response.retrieval_id,
        query=response.query,
        query_fingerprint=response.query_fingerprint,
        task_id=response.task_id,
        task_step=response.task_step,
        created_time=_time(response.created_time),
        strategy=response.strategy,
        outcome=_outcome(response.outcome),
        ledger=_spending(response.ledger),
        partial=response.partial,
        candidates=tuple(_ranked(one) for one in response.candidates),
        duration_ms=response.duration_ms,
    )


def _policy(policy: registry_service_pb2.Policy) -> PolicyInfo:
    return PolicyInfo(
        policy_id=policy.policy_id,
        owner_agent_id=policy.owner_agent_id,
        owner_session_id=policy.owner_session_id,
        grantee_agent_id=policy.grantee_agent_id,
        grantee_session_id=policy.grantee_session_id,
        kinds=frozenset(_kind(kind) for kind in policy.kinds),
        created_time=_time(policy.created_time),
        created_by=policy.created_by,
        expires_time=_time(policy.expires_time) if policy.HasField("expires_time") else None,
    )


def _predictor(predictor: predictor_service_pb2.Predictor) -> PredictorInfo:
    report = predictor.report
    return PredictorInfo(
        version=predictor.version,
        created_time=_time(predictor.created_time),
        prior_version=predictor.prior_version,
        intercept=predictor.intercept,
        weights=dict(predictor.weights),
        reference_rates={_kind(one.kind): one.rate for one in predictor.reference_rates},
        adopted=predictor.adopted,
        in_use=predictor.in_use,
        report=CalibrationReport(
            in_use_version=report.in_use_version,
            fit_retrievals=report.fit_retrievals,
            fit_examples=report.fit_examples,
            left_out_retrievals=report.left_out_retrievals,
            held_out_retrievals=report.held_out_retrievals,
            held_out_examples=report.held_out_examples,
            in_use=_evaluation(report.in_use),
            candidate=_evaluation(report.candidate),
            brier_gain=report.brier_gain if report.HasField("brier_gain") else None,
            brier_gain_error=report.brier_gain_error if report.HasField("brier_gain_error") else None,
            slices=tuple(
                CalibrationSlice(
                    _time(one.first_time),
                    _time(one.last_time),
                    one.example_count,
                    one.in_use_brier,
                    one.candidate_brier,
                    one.gain_error,
                )
                for one in report.slices
            ),
            adopted=predictor.adopted,
            reasons=tuple(report.reasons),
        ),
    )


def _evaluation(evaluation: predictor_service_pb2.PredictorEvaluation) -> Evaluation:
    return Evaluation(
        brier=evaluation.brier if evaluation.HasField("brier") else None,
        auc=evaluation.auc if evaluation.HasField("auc") else None,
        auc_error=evaluation.auc_error if evaluation.HasField("auc_error") else None,
        by_kind=tuple(_reference_rate(one) for one in evaluation.by_kind),
        by_decile=tuple(_reference_rate(one) for one in evaluation.by_decile),
    )


def _reference_rate(rate: predictor_service_pb2.ReferenceRate) -> ReferenceRate:
    return ReferenceRate(
        kind=_kind(rate.kind) if rate.kind else None,
        lowest_value=rate.lowest_value,
        highest_value=rate.highest_value,
        count=rate.count,
        expected=rate.expected,
        observed=rate.observed,
    )


def _failure(error: grpc.aio.AioRpcError) -> GraphsvcCallError:
    """The error with its google.rpc details unpacked."""
    trailing = dict(cast("Iterable[tuple[str, Any]]", error.trailing_metadata() or ()))
    status = status_pb2.Status.FromString(trailing.get("grpc-status-details-bin", b""))
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    details = (info, bad, retry)
    found = [into for packed in status.details for into in details if packed.Unpack(into)]
    return GraphsvcCallError(
        error.code().name,
        info.reason if info.domain == "graphsvc" else "",
        status.message or error.details() or "no answer",
        metadata=info.metadata,
        field_violations={one.field: one.description for one in bad.field_violations},
        retry_delay_s=retry.retry_delay.ToMicroseconds() / 1e6 if retry in found else None,
        request_id=str(trailing.get("x-request-id", "")),
    )


__all__ = [
    "ClientSession",
    "ClientSessionSync",
    "EdgeInput",
    "Explanation",
    "Found",
    "GraphsvcCallError",
    "GraphsvcClient",
    "GraphsvcClientSync",
    "Path",
    "PolicyInfo",
    "PredictorInfo",
    "PutOutcome",
    "RankedUnit",
    "RecalibrationInfo",
    "RelationInput",
    "ReportedOutcome",
    "Retrieval",
    "SessionScope",
    "Spending",
    "Tls",
    "Unit",
    "UnitInput",
]
