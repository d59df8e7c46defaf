"""The client, the sync twin and the server's edge, over a real connection and use cases that answer from memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from graphsvc import telemetry
from graphsvc.client import (
    EdgeInput,
    GraphsvcCallError,
    GraphsvcClient,
    GraphsvcClientSync,
    RelationInput,
    Tls,
    UnitInput,
)
from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import (
    Candidate,
    CandidateSource,
    CatalogEntry,
    Contribution,
    Disposition,
    GraphPath,
    Outcome,
    RankedCandidate,
    Valuation,
)
from graphsvc.domain.errors import (
    ErrorReason,
    GraphsvcError,
    Internal,
    InvalidArgument,
    LocalFault,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from graphsvc.domain.outcomes import OutcomeReport, ReferenceMethod, UnitOutcome
from graphsvc.domain.tenancy import DEFAULT_SHARED_KINDS, Policy, Role
from graphsvc.domain.units import ContextUnit, ContextUnitKind, EdgeType, EpistemicStatus, Tier, unit_id_for
from graphsvc.ports import ApiKey, PutResult, Read, StoredUnit, WriteStatus, Written
from graphsvc.server import interceptors
from graphsvc.server.server import RunningServer, build_server
from graphsvc.services.drafts import ExplainedRetrieval, RetrievalAnswer
from graphsvc.settings import Settings
from graphsvc.v1 import context_service_pb2 as cs
from graphsvc.v1 import context_service_pb2_grpc, core_pb2

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEYS = {
    "gsk_all": ("t1", "a1", frozenset(Role)),
    "gsk_reader": ("t1", "a2", frozenset({Role.READER})),
    "gsk_other": ("t2", "a1", frozenset(Role)),
}


@dataclass
class MemoryUseCases:
    """All three sets of use cases, enough to answer; ``faults`` are raised first, one a call."""

    units: dict[str, StoredUnit] = field(default_factory=dict)
    seen: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    delay_s: float = 0.0
    cancelled: int = 0
    revision: int = 0

    async def _enter(self, name: str, *facts: Any) -> None:
        self.seen.append((name, facts))
        if self.faults:
            raise self.faults.pop(0)
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def _written(self, result):
        self.revision += 1
        return Written(result, (f"FB:{self.revision}",))

    async def authenticate(self, api_key):
        if api_key == "gsk_away":
            raise Unavailable(ErrorReason.GRAPH_UNAVAILABLE, "the database is away", retry_delay_ms=1)
        if api_key not in KEYS:
            raise Unauthenticated(ErrorReason.CREDENTIALS_INVALID, f"what is wrong with {api_key}")
        tenant, agent, roles = KEYS[api_key]
        return ApiKey(f"id-{api_key}", tenant, agent, roles, NOW, None)

    async def put(self, principal, drafts, request):
        await self._enter("put", principal, drafts, request)
        results = []
        for draft in drafts:
            unit_id = unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, draft.unit_key)
            status = WriteStatus.EXISTING if unit_id in self.units else WriteStatus.CREATED
            self.units[unit_id] = StoredUnit(
                ContextUnit(
                    unit_id,
                    draft.unit_key,
                    principal.tenant_id,
                    principal.agent_id,
                    principal.session_id,
                    draft.kind,
                    draft.content,
                    NOW,
                    NOW + timedelta(microseconds=len(self.units)),
                    model=draft.model or principal.model,
                    content_sha256=hashlib.sha256(draft.content.encode()).hexdigest(),
                    size_bytes=len(draft.content.encode()),
                )
            )
            results.append(PutResult(unit_id, status))
        return self._written(tuple(results))

    async def get(self, principal, unit_ids, *, with_content, options):
        await self._enter("get", principal, unit_ids, options)
        found = [self._shown(self.units[one], with_content) for one in unit_ids if one in self.units]
        return found, [one for one in unit_ids if one not in self.units]

    async def list(self, principal, where, after, limit, *, with_content, options):
        await self._enter("list", principal, where, after, limit, options)
        found = sorted(self.units.values(), key=lambda one: (one.unit.created_time, one.unit.unit_id))
        later = [one for one in found if after is None or (one.unit.created_time, one.unit.unit_id) > after]
        return tuple(self._shown(one, with_content) for one in later[:limit])

    @staticmethod
    def _shown(stored, with_content):
        return stored if with_content else StoredUnit(replace(stored.unit, content=""))

    async def delete(self, principal, unit_ids, request):
        await self._enter("delete", principal, unit_ids, request)
        return self._written(tuple(one for one in unit_ids if self.units.pop(one, None)))

    async def link(self, principal, edges, request):
        await self._enter("link", principal, edges, request)
        return self._written(tuple(WriteStatus.CREATED for _ in edges))

    async def unlink(self, principal, edges, request):
        await self._enter("unlink", principal, edges, request)
        return self._written(len(edges))

    async def retrieve(self, principal, query, options):
        await self._enter("retrieve", principal, query, options)
        telemetry.record_query("expand_candidates", 1.5)
        ranked = tuple(ranked_candidate(rank) for rank in range(1, 4))
        ledger = Ledger(Budget.of_retrieval(500), 120, 10, 1, 2)
        return self._written(
            RetrievalAnswer(
                "r1",
                Outcome.SELECTED,
                "1 unit",
                "payload",
                (),
                ranked,
                ledger,
                "about_topic",
                ("u1",),
                True,
                "o200k_base",
                "ff",
                3.5,
                ("no embedder",),
            )
        )

    async def explain(self, principal, retrieval_id, options):
        await self._enter("explain", principal, retrieval_id, options)
        if retrieval_id != "r1":
            raise NotFound(ErrorReason.RETRIEVAL_NOT_FOUND, "no such retrieval of yours")
        ledger = Ledger(Budget.of_step(1000, 10, 0.4), 1, 0, 1, 0)
        return ExplainedRetrieval(
            "r1", "q", "ff", "T", 3, NOW, "about_topic", Outcome.SELECTED, ledger, False, (ranked_candidate(1),), 1.0
        )

    async def report_outcome(self, principal, retrieval_id, report, request):
        await self._enter("report_outcome", principal, retrieval_id, report, request)
        verdicts = (UnitOutcome("u1", tuple(ReferenceMethod), "cited"), UnitOutcome("u2", ()))
        return replace(self._written(verdicts), replayed=retrieval_id == "r2")

    async def create_policy(self, principal, *, request, expires_time, kinds, **names):
        await self._enter("create_policy", principal, names, request)
        kinds = frozenset(kinds) or DEFAULT_SHARED_KINDS
        return self._written(
            Policy(
                "p1",
                principal.tenant_id,
                created_time=NOW,
                created_by="a1",
                kinds=kinds,
                expires_time=expires_time,
                **names,
            )
        )

    async def list_policies(self, principal, after, limit, options):
        await self._enter("list_policies", principal, after, limit, options)
        policies = [
            Policy(f"p{n}", "t1", "a1", "", "", "", DEFAULT_SHARED_KINDS, NOW + timedelta(seconds=n), "a1")
            for n in range(5)
        ]
        later = [one for one in policies if after is None or (one.created_time, one.policy_id) > after]
        return Read(tuple(later[:limit]))

    async def delete_policy(self, principal, policy_id, request):
        await self._enter("delete_policy", principal, policy_id, request)
        return self._written(True)


def ranked_candidate(rank: int) -> RankedCandidate:
    entry = CatalogEntry(
        f"u{rank}",
        f"k{rank}",
        "a1",
        "s1",
        0,
        ContextUnitKind.DECISION,
        EpistemicStatus.CONFIRMED,
        NOW,
        NOW,
        "a/b.py",
        "",
        Tier.WARM,
        0.5,
        False,
        "ff",
        9,
        {"o200k_base": 5},
    )
    candidate = Candidate(
        entry,
        frozenset({CandidateSource.GRAPH, CandidateSource.FULL_TEXT}),
        GraphPath(1, (EdgeType.CAUSATION,), ("task:T", entry.unit_id), 1),
        0.5,
        2.5,
        None,
    )
    valuation = Valuation(0.5, -1.0, (Contribution("hop_count", 1, 0.5, 2.0),))
    disposition = Disposition.SELECTED if rank == 1 else Disposition.OVER_BUDGET
    return RankedCandidate(candidate, valuation, 10, rank, disposition, "because")


def settings_for(**overrides):
    return Settings(grpc_port=0, **overrides)


@contextlib.asynccontextmanager
async def running(use_cases: MemoryUseCases, **overrides) -> AsyncIterator[RunningServer]:
    server = await build_server(
        settings_for(**overrides),
        contexts=use_cases,
        retrievals=use_cases,
        feedback=use_cases,
        calibration=use_cases,
        registry=use_cases,
        service_secret=b"s" * 32,
    )
    try:
        yield server
    finally:
        await server.stop(grace=0.2)


@pytest.fixture
def use_cases():
    return MemoryUseCases()


@pytest.fixture
async def server(use_cases):
    async with running(use_cases) as started:
        yield started


@pytest.fixture
async def client(server):
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_all") as made:
        yield made


@pytest.fixture
async def channel(server):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as made:
        yield made


@pytest.fixture
def log_lines():
    with structlog.testing.capture_logs() as lines:
        yield lines


async def failing(call) -> GraphsvcCallError:
    with pytest.raises(GraphsvcCallError) as caught:
        await call
    return caught.value


def rpc_lines(lines):
    return [line for line in lines if line["event"] == telemetry.LOG_EVENT_RPC]


# ---- the client's calls ---------------------------------------------------------------------------------------------


async def test_units_go_there_and_back(client, use_cases):
    session = client.session("s1", model="gpt-5")
    first, second = await session.put([UnitInput("decision", "one", unit_key="k"), UnitInput("observation", "two")])
    assert (first.unit_key, first.created, second.created) == ("k", True, True)
    (again,) = await session.put([UnitInput(ContextUnitKind.DECISION, "one", unit_key="k")])
    assert again == replace(first, created=False)
    found = await session.get([first.unit_id, "absent", second.unit_id])
    assert [unit.content for unit in found.units] == ["one", "two"]
    assert found.missing_ids == ("absent",)
    assert found.units[0].model == "gpt-5"
    bare = await session.get([first.unit_id], with_content=False)
    assert bare.units[0].content == ""
    assert await session.delete([first.unit_id, "absent"]) == (first.unit_id,)
    name, (principal, *_) = use_cases.seen[0]
    assert (name, principal.tenant_id, principal.agent_id, principal.session_id) == ("put", "t1", "a1", "s1")
    assert (principal.model, principal.key_id) == ("gpt-5", "id-gsk_all")


async def test_edges_go_there(client, use_cases):
    session = client.session("s1")
    edge = EdgeInput("u1", RelationInput("supersession", target_id="u2", role="r", weight=0.5))
    assert await session.link([edge]) == (True,)
    assert await session.unlink([edge, EdgeInput("u1", RelationInput(EdgeType.CAUSATION, target_key="k"))]) == 2
    _, (_, (draft,), _) = use_cases.seen[0]
    assert (draft.source_id, draft.relation.target_id, draft.relation.weight) == ("u1", "u2", 0.5)


@pytest.mark.parametrize("with_content", [False, True])
async def test_a_list_pages_to_its_end(client, with_content):
    session = client.session("s1")
    await session.put([UnitInput("decision", f"c{n}", unit_key=f"k{n}") for n in range(7)])
    found = [unit async for unit in session.list(page_size=3, with_content=with_content)]
    assert [unit.unit_key for unit in found] == [f"k{n}" for n in range(7)]
    assert [unit.content for unit in found] == [f"c{n}" if with_content else "" for n in range(7)]


async def test_a_page_with_content_ends_before_16_mib(client, use_cases):
    session = client.session("s1")
    big = "x" * 2**20
    for n in range(2):
        await session.put([UnitInput("observation", big, unit_key=f"{n}-{m}") for m in range(10)])
    found = [unit async for unit in session.list(page_size=1000, with_content=True)]
    assert len(found) == 20
    assert [name for name, _ in use_cases.seen].count("list") == 2
    failure = await failing(session.get([unit.unit_id for unit in found]))
    assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")
    assert len((await session.get([unit.unit_id for unit in found], with_content=False)).units) == 20


async def test_a_page_token_holds_for_its_list_only(client, channel):
    await client.put("s1", [UnitInput("decision", f"c{n}") for n in range(3)])
    stub = context_service_pb2_grpc.ContextServiceStub(channel)

    async def page(api_key="gsk_all", **fields):
        request = cs.ListUnitsRequest(**{"session_id": "s1", "page_size": 1, **fields})
        return await stub.ListUnits(request, metadata=(("authorization", f"Bearer {api_key}"),))

    token = (await page()).next_page_token
    assert (await page(page_token=token, page_size=2, with_content=True)).units
    for odd in (
        {"session_id": "s2"},
        {"api_key": "gsk_other"},
        {"api_key": "gsk_reader"},
        {"kinds": [core_pb2.CONTEXT_UNIT_KIND_DECISION]},
        {"current_only": True},
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await page(page_token=token, **odd)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "page_token" in caught.value.details()


async def test_a_retrieval_goes_there_and_back(client, use_cases):
    answer = await client.session("s1", model="m").retrieve(
        "q", retrieval_budget=500, task_id="T", follow={"causation": "incoming"}, max_described_candidates=2, as_of=NOW
    )
    assert (answer.retrieval_id, answer.outcome, answer.partial) == ("r1", Outcome.SELECTED, True)
    assert (answer.candidate_count, len(answer.candidates)) == (3, 2)
    best = answer.candidates[0]
    assert (best.rank, best.disposition, best.full_text_score, best.vector_score) == (
        1,
        Disposition.SELECTED,
        2.5,
        None,
    )
    assert best.graph_path is not None
    assert best.graph_path.unit_ids == ("task:T", "u1")
    assert best.contributions[0].logit == 1.0
    assert answer.ledger.budget_remaining == 370
    explained = await client.explain("s1", "r1")
    assert (explained.created_time, explained.ledger.reasoning_reserve) == (NOW, 400)
    failure = await failing(client.explain("s1", "r2"))
    assert (failure.code, failure.reason) == ("NOT_FOUND", "RETRIEVAL_NOT_FOUND")
    _, (_, query, _) = use_cases.seen[0]
    assert (query.text, query.task_id, query.as_of) == ("q", "T", NOW)


async def test_an_outcome_goes_there_and_back(client, use_cases):
    reported = await client.session("s1").report_outcome(
        "r1", "[u1]", cited_unit_ids=["u2", "u1", "u2"], request_id="q"
    )
    assert reported.outcomes == (UnitOutcome("u1", tuple(ReferenceMethod), "cited"), UnitOutcome("u2", ()))
    assert (reported.referenced_ids, reported.replayed) == (("u1",), False)
    _, (principal, retrieval_id, report, request) = use_cases.seen[-1]
    assert (principal.session_id, retrieval_id, request.request_id) == ("s1", "r1", "q")
    assert report == OutcomeReport("[u1]", ("u2", "u1"))
    assert (await client.report_outcome("s1", "r2", decisive_unit_ids=["u1"])).replayed
    assert use_cases.seen[-1][1][2] == OutcomeReport("", (), ("u1",))
    await client.get("s1", ["x"])
    assert use_cases.seen[-1][1][-1].bookmarks == ("FB:2",), "a report is a write"


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"session": ""}, "FIELD_REQUIRED", "session_id"),
        ({"retrieval_id": ""}, "FIELD_REQUIRED", "retrieval_id"),
        ({"cited_unit_ids": ["u1", ""]}, "FIELD_REQUIRED", "cited_unit_ids[1]"),
        ({"decisive_unit_ids": ["u"] * 1001}, "FIELD_TOO_LARGE", "decisive_unit_ids"),
        ({"request_id": "q" * 129}, "FIELD_TOO_LARGE", "request_id"),
    ],
)
async def test_a_malformed_report_is_refused(client, use_cases, fields, reason, field):
    failure = await failing(client.report_outcome(**{"session": "s1", "retrieval_id": "r1", "output": "x", **fields}))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", reason)
    assert list(failure.field_violations) == [field]
    assert not use_cases.seen


async def test_a_reader_reports_nothing(server, use_cases):
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_reader") as reader:
        failure = await failing(reader.report_outcome("s1", "r1", "x"))
    assert (failure.code, failure.reason) == ("PERMISSION_DENIED", "ROLE_MISSING")
    assert not use_cases.seen


async def test_policies_go_there_and_back(client, use_cases):
    policy = await client.create_policy(grantee_agent_id="a2", kinds=["observation"], expires_time=NOW)
    assert policy.kinds == {ContextUnitKind.OBSERVATION}
    assert policy.expires_time == NOW
    assert [one.policy_id async for one in client.list_policies(page_size=2)] == [f"p{n}" for n in range(5)]
    await client.delete_policy("p1")
    _, (principal, _, _) = use_cases.seen[-1]
    assert principal.session_id == ""


# ---- revisions ------------------------------------------------------------------------------------------------------


async def test_reads_ask_for_the_clients_own_writes(client, use_cases):
    session = client.session("s1")
    await session.get(["x"])
    assert use_cases.seen[-1][1][-1].bookmarks == ()
    await session.put([UnitInput("decision", "one")])
    await session.get(["x"])
    assert use_cases.seen[-1][1][-1].bookmarks == ("FB:1",)
    _ = [unit async for unit in session.list()]
    assert use_cases.seen[-1][1][-1].bookmarks == ("FB:1",)


async def test_a_revision_is_handed_on(client, server, use_cases):
    await client.put("s1", [UnitInput("decision", "one")])
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_reader") as second:
        await second.get("s1", ["x"], revision=client.last_revision)
    assert use_cases.seen[-1][1][-1].bookmarks == ("FB:1",)


async def test_a_revision_of_another_tenant_is_denied_before_any_look_up(client, server, use_cases):
    await client.put("s1", [UnitInput("decision", "one")])
    use_cases.seen.clear()
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_other") as stranger:
        failure = await failing(stranger.get("s1", ["x"], revision=client.last_revision))
        assert (failure.code, failure.reason) == ("PERMISSION_DENIED", "OTHER_TENANT")
        failure = await failing(stranger.get("s1", ["x"], revision="nonsense"))
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "REVISION_TOKEN_INVALID")
    assert not use_cases.seen


# ---- retries and deadlines ------------------------------------------------------------------------------------------


def away(delay_ms=1):
    return Unavailable(ErrorReason.GRAPH_UNAVAILABLE, "the database is away", retry_delay_ms=delay_ms)


async def test_unavailable_is_tried_again_under_the_same_request_id(client, use_cases, log_lines):
    use_cases.faults = [away(), away()]
    assert (await client.put("s1", [UnitInput("decision", "one")]))[0].created
    requests = [facts[-1] for name, facts in use_cases.seen if name == "put"]
    assert len(requests) == 3
    assert len({(one.request_id, one.fingerprint) for one in requests}) == 1
    lines = rpc_lines(log_lines)
    assert [line["code"] for line in lines] == ["UNAVAILABLE", "UNAVAILABLE", "OK"]
    assert len({line["request_id"] for line in lines}) == 1


async def test_tries_are_bounded(client, use_cases):
    use_cases.faults = [away() for _ in range(10)]
    failure = await failing(client.get("s1", ["x"]))
    assert (failure.code, failure.reason, failure.retry_delay_s) == ("UNAVAILABLE", "GRAPH_UNAVAILABLE", 0.001)
    assert len(use_cases.faults) == 6


async def test_no_try_starts_after_the_timeout(server, use_cases):
    use_cases.faults = [away(delay_ms=60_000)]
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_all", timeout_s=0.5) as hasty:
        failure = await failing(hasty.get("s1", ["x"]))
    assert failure.retry_delay_s == 60
    assert len(use_cases.seen) == 1


@pytest.mark.parametrize("cls", [cls for cls in interceptors.status.CODES if cls is not Unavailable])
async def test_nothing_else_is_tried_again(client, use_cases, cls):
    use_cases.faults = [cls(ErrorReason.INTERNAL_FAULT, "no")]
    failure = await failing(client.get("s1", ["x"]))
    assert failure.code == interceptors.status.CODES[cls].name
    assert failure.request_id
    assert len(use_cases.seen) == 1


async def test_a_server_that_is_not_there():
    async with GraphsvcClient("127.0.0.1:1", api_key="k", max_attempts=2) as lost:
        failure = await failing(lost.get("s1", ["x"]))
    assert (failure.code, failure.reason, failure.request_id) == ("UNAVAILABLE", "", "")


async def test_a_deadline_ends_the_work(server, use_cases, log_lines):
    use_cases.delay_s = 30
    async with GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_all", timeout_s=0.2) as hasty:
        failure = await failing(hasty.get("s1", ["x"]))
    assert failure.code == "DEADLINE_EXCEEDED"
    for _ in range(100):
        if use_cases.cancelled and rpc_lines(log_lines):
            break
        await asyncio.sleep(0.02)
    assert use_cases.cancelled == 1
    options = use_cases.seen[0][1][-1]
    assert 1 <= options.timeout_ms <= 200
    (line,) = rpc_lines(log_lines)
    assert line["code"] in ("CANCELLED", "DEADLINE_EXCEEDED")


async def test_a_caller_that_goes_away_ends_the_work(client, use_cases):
    use_cases.delay_s = 30
    task = asyncio.create_task(client.get("s1", ["x"]))
    while not use_cases.seen:
        await asyncio.sleep(0.01)
    task.cancel()
    for _ in range(100):
        if use_cases.cancelled:
            break
        await asyncio.sleep(0.02)
    assert use_cases.cancelled == 1


async def test_a_call_without_a_deadline_gets_one(channel, use_cases, monkeypatch):
    monkeypatch.setattr(interceptors, "DEFAULT_DEADLINE_S", 0.1)
    use_cases.delay_s = 30
    stub = context_service_pb2_grpc.ContextServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetUnits(
            cs.GetUnitsRequest(session_id="s1", unit_ids=["x"]), metadata=(("authorization", "Bearer gsk_all"),)
        )
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert info_of(caught.value).reason == "DEADLINE_PASSED"


# ---- identity, errors, logs -----------------------------------------------------------------------------------------


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    return status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])


def info_of(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    assert status_of(error).details[0].Unpack(info)
    return info


async def refused(channel, method="GetUnits", request=None, metadata=()):
    stub = context_service_pb2_grpc.ContextServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(stub, method)(request or cs.GetUnitsRequest(session_id="s", unit_ids=["x"]), metadata=metadata)
    return caught.value


async def test_no_key_and_a_wrong_key(channel, use_cases):
    error = await refused(channel)
    assert (error.code(), info_of(error).reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING")
    texts = set()
    for value in ("", "gsk_all", "Basic gsk_all", "Bearer", "Bearer gsk_unknown", "Bearer " + "x" * 1000):
        error = await refused(channel, metadata=(("authorization", value),))
        assert (error.code(), info_of(error).reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID")
        texts.add(error.details())
    assert len(texts) == 1
    assert not use_cases.seen


async def test_nothing_is_parsed_before_it_is_known_who_sent_it(channel):
    raw = channel.unary_unary("/graphsvc.v1.ContextService/GetUnits")
    for metadata, code in (
        ((), grpc.StatusCode.UNAUTHENTICATED),
        ((("authorization", "Bearer gsk_all"),), grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw(b"\xff\xff", metadata=metadata)
        assert caught.value.code() is code
    assert info_of(caught.value).reason == "FIELD_INVALID"


async def test_a_key_without_the_role(channel, use_cases):
    request = cs.PutUnitsRequest(request_id="r", session_id="s")
    error = await refused(channel, "PutUnits", request, (("authorization", "Bearer gsk_reader"),))
    assert (error.code(), info_of(error).reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    assert dict(info_of(error).metadata) == {"required_role": "writer"}
    assert not use_cases.seen


async def test_a_database_that_is_away_is_no_wrong_key(channel):
    error = await refused(channel, metadata=(("authorization", "Bearer gsk_away"),))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_an_rpc_without_a_role_does_not_start():
    with pytest.raises(Internal, match="NewRpc"):
        interceptors.check_roles([*interceptors.ROLES, "/graphsvc.v1.ContextService/NewRpc"])
    with pytest.raises(Internal, match="PutUnits"):
        interceptors.check_roles(set(interceptors.ROLES) - {"/graphsvc.v1.ContextService/PutUnits"})


@pytest.mark.parametrize(
    ("session_id", "field"), [("", "session_id"), ("a\x1fb", "session_id"), ("x" * 257, "session_id")]
)
async def test_a_session_is_required(client, session_id, field):
    failure = await failing(client.get(session_id, ["x"]))
    assert failure.code == "INVALID_ARGUMENT"
    assert list(failure.field_violations) == [field]


async def test_a_violation_names_the_field(client, use_cases):
    use_cases.faults = [InvalidArgument(ErrorReason.CONTENT_INVALID, "JSON", field="units[3].content")]
    failure = await failing(client.put("s1", [UnitInput("decision", "x")]))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "CONTENT_INVALID")
    assert failure.field_violations == {"units[3].content": "JSON"}
    assert failure.metadata == {"field": "units[3].content"}


async def test_an_oversized_request_is_told_so(client):
    units = [UnitInput("observation", "x" * 2**20, unit_key=str(n)) for n in range(16)]
    failure = await failing(client.put("s1", units))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "FIELD_TOO_LARGE")


async def test_a_bug_shows_an_id_only_and_its_trace_goes_to_the_log(client, use_cases, log_lines):
    use_cases.faults = [RuntimeError("the content of a unit")]
    failure = await failing(client.get("s1", ["x"]))
    assert (failure.code, failure.reason) == ("INTERNAL", "INTERNAL_FAULT")
    assert failure.request_id in failure.message
    (line,) = rpc_lines(log_lines)
    assert line["log_level"] == "error"
    assert line["request_id"] == failure.request_id
    text = json.dumps(line)
    assert "builtins.RuntimeError" in text
    assert "_enter" in text
    assert "content of a unit" not in text + str(failure)


@pytest.mark.parametrize("given", ["abc-123", "", "a b", "x" * 129, "é"])
async def test_the_request_id_comes_back(channel, given):
    stub = context_service_pb2_grpc.ContextServiceStub(channel)
    metadata = [("authorization", "Bearer gsk_all")]
    if given.isascii():
        metadata.append(("x-request-id", given))
    call = stub.GetUnits(cs.GetUnitsRequest(session_id="s", unit_ids=["x"]), metadata=metadata)
    await call
    answered = dict(await call.trailing_metadata())["x-request-id"]
    assert answered == given if given == "abc-123" else len(answered) == 32


async def test_one_log_line_an_rpc_without_content(client, log_lines):
    await client.session("secret-session", model="m").retrieve("secret question", retrieval_budget=500)
    (line,) = rpc_lines(log_lines)
    assert line.pop("duration_ms") > 0
    assert line.pop("request_id")
    assert line == {
        "event": "rpc",
        "log_level": "info",
        "rpc": "RetrievalService/Retrieve",
        "code": "OK",
        "reason": None,
        "tenant_id": "t1",
        "agent_id": "a1",
        "key_id": "id-gsk_all",
        "strategy": "about_topic",
        "outcome": "1 unit",
        "tokens_spent": 120,
        "candidates_deferred": 2,
        "budget_remaining": 370,
        "queries": {"expand_candidates": 1.5},
    }


def test_log_lines_are_json(capsys):
    before = structlog.get_config()
    try:
        telemetry.configure_logging("INFO")
        structlog.get_logger("x").info("rpc", code="OK")
        structlog.get_logger("x").debug("unseen")
    finally:
        structlog.configure(**before)
    (line,) = capsys.readouterr().err.splitlines()
    parsed = json.loads(line)
    assert (parsed["event"], parsed["code"], parsed["level"]) == ("rpc", "OK", "info")


# ---- health, reflection, addresses ----------------------------------------------------------------------------------


async def test_health_needs_no_key_and_serves_when_told(server, channel):
    stub = health_pb2_grpc.HealthStub(channel)

    async def statuses():
        names = ("", "graphsvc.v1.RetrievalService")
        return {(await stub.Check(health_pb2.HealthCheckRequest(service=name))).status for name in names}

    assert await statuses() == {health_pb2.HealthCheckResponse.NOT_SERVING}
    await server.set_serving()
    assert await statuses() == {health_pb2.HealthCheckResponse.SERVING}


async def test_reflection_names_the_services(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = set()
    async for response in call:
        names |= {one.name for one in response.list_services_response.service}
    assert {f"graphsvc.v1.{name}Service" for name in ("Context", "Retrieval", "Registry")} <= names


async def test_stop_lets_calls_finish(use_cases):
    use_cases.delay_s = 0.3
    async with (
        running(use_cases) as server,
        GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_all") as client,
    ):
        task = asyncio.create_task(client.get("s1", ["x"]))
        while not use_cases.seen:
            await asyncio.sleep(0.01)
        await server.stop(grace=5)
        assert (await task).missing_ids == ("x",)


async def test_a_taken_port_is_said(server, use_cases):
    with pytest.raises(LocalFault, match="cannot listen"):
        await build_server(
            Settings(grpc_port=server.port),
            contexts=use_cases,
            retrievals=use_cases,
            feedback=use_cases,
            calibration=use_cases,
            registry=use_cases,
            service_secret=b"s" * 32,
        )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_other_machines_need_tls(use_cases, host):
    with pytest.raises(InvalidArgument, match="GRAPHSVC_TLS_CERTIFICATE"):
        async with running(use_cases, grpc_host=host):
            pass


async def test_an_insecure_bind_must_be_meant(use_cases):
    async with (
        running(use_cases, grpc_host="0.0.0.0", allow_insecure_bind=True) as server,
        GraphsvcClient(f"127.0.0.1:{server.port}", api_key="gsk_all") as client,
    ):
        assert (await client.get("s1", ["x"])).missing_ids == ("x",)


@pytest.fixture
def certificate(tmp_path):
    """Paths of a self-signed certificate for localhost and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = tmp_path / "server.pem", tmp_path / "server.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, key_pem


async def test_tls_by_settings(use_cases, certificate):
    pem, key_pem = certificate
    async with running(use_cases, grpc_host="0.0.0.0", tls_certificate=pem, tls_key=key_pem) as server:
        target = f"127.0.0.1:{server.port}"
        tls = Tls(root_certificates=pem.read_bytes(), server_name="localhost")
        async with GraphsvcClient(target, api_key="gsk_all", tls=tls) as client:
            assert (await client.get("s1", ["x"])).missing_ids == ("x",)
        async with GraphsvcClient(target, api_key="gsk_all", max_attempts=1, timeout_s=5) as plain:
            assert (await failing(plain.get("s1", ["x"]))).code == "UNAVAILABLE"


async def test_a_certificate_that_is_not_there_is_said(use_cases, tmp_path):
    with pytest.raises(InvalidArgument, match="cannot be read"):
        async with running(use_cases, tls_certificate=tmp_path / "none.pem", tls_key=tmp_path / "none.key"):
            pass


# ---- the sync twin --------------------------------------------------------------------------------------------------


async def test_the_sync_twin_does_the_same(server, use_cases):
    def work():
        with GraphsvcClientSync(f"127.0.0.1:{server.port}", api_key="gsk_all") as client:
            session = client.session("s1", model="m")
            put = session.put([UnitInput("decision", f"c{n}", unit_key=f"k{n}") for n in range(5)])
            listed = [unit.unit_key for unit in session.list(page_size=2)]
            found = session.get([put[0].unit_id])
            answer = session.retrieve("q", total_step_budget=1000)
            reported = session.report_outcome(answer.retrieval_id, "[u1]")
            policies = [one.policy_id for one in client.list_policies(page_size=2)]
            with pytest.raises(GraphsvcCallError) as caught:
                session.explain("r2")
            assert client.last_revision
            assert reported.referenced_ids == ("u1",)
            return listed, found.units[0].content, answer.retrieval_id, policies, caught.value.reason

    listed, content, retrieval_id, policies, reason = await asyncio.to_thread(work)
    assert listed == [f"k{n}" for n in range(5)]
    assert (content, retrieval_id, reason) == ("c0", "r1", "RETRIEVAL_NOT_FOUND")
    assert policies == [f"p{n}" for n in range(5)]


def test_the_sync_twin_has_every_call():
    def public(cls):
        return {name for name in vars(cls) if not name.startswith("_")}

    assert public(GraphsvcClient) - public(GraphsvcClientSync) == set()


def test_every_error_class_is_known_to_the_client():
    assert issubclass(GraphsvcCallError, Exception)
    assert not issubclass(GraphsvcCallError, GraphsvcError)
