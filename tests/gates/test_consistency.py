"""Gates of consistency: twice means once, reads see writes, lists are whole, deadlines end the work, errors say why."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import neo4j
import pytest
from google.protobuf.message import Message

from graphsvc.client import EdgeInput, GraphsvcCallError, GraphsvcClient, RelationInput, UnitInput
from graphsvc.domain.errors import Aborted, DataLoss, ErrorReason, Unavailable
from graphsvc.domain.tenancy import Role
from graphsvc.graph.catalog import Statement
from graphsvc.graph.driver import GraphDriver
from graphsvc.server.status import CODES
from graphsvc.tiers.store import ContentTiers
from graphsvc.v1 import context_service_pb2 as context_pb
from graphsvc.v1 import core_pb2
from graphsvc.v1 import registry_service_pb2 as registry_pb
from graphsvc.v1 import retrieval_service_pb2 as retrieval_pb
from tests.gates.conftest import FrozenService, Twin
from tests.gates.stubs import Refusal, Stubs
from tests.gates.worlds import around, put_around
from tests.support.service import Service


@pytest.fixture
async def tenant(service: Service) -> str:
    """A tenant of its own."""
    return await service.tenant()


@pytest.fixture
async def client(service: Service, tenant: str) -> GraphsvcClient:
    """An agent of that tenant."""
    return await service.client(tenant, "agent-a")


async def _count_units(graph_driver: neo4j.AsyncDriver, tenant: str) -> int:
    (row,), _, _ = await graph_driver.execute_query(
        "MATCH (u:ContextUnit {tenant_id: $tenant}) RETURN count(u) AS n", tenant=tenant
    )
    return int(row["n"])


# ---- twice means once -----------------------------------------------------------------------------------------------


async def test_consistency_the_same_request_again_changes_nothing(
    client: GraphsvcClient, tenant: str, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    units = [UnitInput("observation", f"unit {n}") for n in range(3)]  # no keys: they come from the request_id
    first = await client.put(session_id, units, request_id="once")
    edge = [EdgeInput(first[1].unit_id, RelationInput("dependency", target_id=first[0].unit_id))]
    linked = await client.link(session_id, edge, request_id="link once")
    policy = await client.create_policy(request_id="share once")
    deleted = await client.delete(session_id, [first[2].unit_id], request_id="delete once")

    assert await client.put(session_id, units, request_id="once") == first, "the reply is the first one"
    assert await client.link(session_id, edge, request_id="link once") == linked == (True,)
    assert await client.create_policy(request_id="share once") == policy
    assert await client.delete(session_id, [first[2].unit_id], request_id="delete once") == deleted
    assert await _count_units(graph_driver, tenant) == 2, "the replayed put did not bring the deleted unit back"
    assert len([one async for one in client.list_policies()]) == 1
    (unit,) = (await client.get(session_id, [first[1].unit_id])).units
    assert len(unit.relations) == 1


async def test_consistency_another_request_under_the_same_id_is_refused(
    client: GraphsvcClient, tenant: str, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    await client.put(session_id, [UnitInput("observation", "one")], request_id="r")
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: client.put(session_id, [UnitInput("observation", "two")], request_id="r"),
        lambda: client.put("another session", [UnitInput("observation", "one")], request_id="r"),
        lambda: client.create_policy(request_id="r"),
        lambda: client.delete(session_id, ["aaaaaaaaaaaa"], request_id="r"),
    ]
    for call in calls:
        with pytest.raises(GraphsvcCallError) as refused:
            await call()
        assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "REQUEST_ID_REUSED")
    assert await _count_units(graph_driver, tenant) == 1


async def test_consistency_a_request_id_belongs_to_its_agent(service: Service, tenant: str, session_id: str) -> None:
    first, second = await service.client(tenant, "agent-a"), await service.client(tenant, "agent-b")
    (one,) = await first.put(session_id, [UnitInput("observation", "mine")], request_id="r")
    (other,) = await second.put(session_id, [UnitInput("observation", "theirs")], request_id="r")

    assert one.created
    assert other.created
    assert one.unit_id != other.unit_id


async def test_consistency_two_servers_carry_a_request_out_once(
    service: Service, twin: Twin, tenant: str, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    key = await service.api_key(tenant, "agent-a")
    units = [UnitInput("observation", f"unit {n}", task_id="T") for n in range(4)]
    async with GraphsvcClient(service.target, api_key=key) as here, GraphsvcClient(twin.target, api_key=key) as there:
        for round_number in range(4):
            answers = await asyncio.gather(
                *(
                    one.put(session_id, units, request_id=f"round {round_number}")
                    for one in (here, there, here, there, here, there)
                )
            )
            assert all(answer == answers[0] for answer in answers), "every process gives the one reply"
            assert all(outcome.created for outcome in answers[0])
        # the same keys from two processes at once, as different requests
        keyed = [UnitInput("observation", f"keyed {n}", unit_key=f"k{n}") for n in range(4)]
        answers = await asyncio.gather(*(one.put(session_id, keyed) for one in (here, there, here, there)))
        created = [sum(outcome.created for outcome in outcomes) for outcomes in zip(*answers, strict=True)]
        assert created == [1, 1, 1, 1], "created once, existing for everybody else"
    assert await _count_units(graph_driver, tenant) == 4 * 4 + 4
    (row,), _, _ = await graph_driver.execute_query(
        "RETURN COUNT { (:Task {tenant_id: $tenant})-[:DEPENDENCY]->() } AS edges,"
        " COUNT { (:Session {tenant_id: $tenant}) } AS sessions",
        tenant=tenant,
    )
    assert (row["edges"], row["sessions"]) == (16, 1)


# ---- reads see writes -----------------------------------------------------------------------------------------------


async def test_consistency_a_revision_token_reads_your_writes_through_another_server(
    service: Service, twin: Twin, tenant: str, session_id: str
) -> None:
    key = await service.api_key(tenant, "agent-a")
    async with GraphsvcClient(service.target, api_key=key) as here, GraphsvcClient(twin.target, api_key=key) as there:
        for number in range(5):
            writer, reader = (here, there) if number % 2 else (there, here)
            (outcome,) = await writer.put(session_id, [UnitInput("decision", f"zqxjkvwrite{number} happened")])
            revision = writer.last_revision
            found = await reader.get(session_id, [outcome.unit_id], revision=revision)
            assert [unit.content for unit in found.units] == [f"zqxjkvwrite{number} happened"]
            assert outcome.unit_id in {unit.unit_id async for unit in reader.list(session_id, revision=revision)}
            answer = await reader.retrieve(
                session_id, f"zqxjkvwrite{number}", retrieval_budget=1_000, revision=revision
            )
            assert outcome.unit_id in {unit.unit_id for unit in answer.units}, "the indexes too"
            explained = await writer.explain(session_id, answer.retrieval_id)
            assert explained.candidates == answer.candidates


async def test_consistency_reads_carry_the_revision_to_the_database(
    client: GraphsvcClient, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (outcome,) = await client.put(session_id, [UnitInput("decision", "x")])
    seen: dict[str, tuple[str, ...]] = {}
    real = GraphDriver.read

    async def read(self: GraphDriver, statement: Statement, params: Any, **options: Any) -> Any:
        seen[statement.name] = tuple(options.get("bookmarks", ()))
        return await real(self, statement, params, **options)

    monkeypatch.setattr(GraphDriver, "read", read)
    await client.get(session_id, [outcome.unit_id])
    _ = [unit async for unit in client.list(session_id)]
    answer = await client.retrieve(session_id, "x", anchor_unit_ids=[outcome.unit_id], retrieval_budget=1_000)
    await client.explain(session_id, answer.retrieval_id)

    for name in ("get_units", "list_units", "search_topic", "expand_from_anchors", "get_retrieval"):
        assert seen[name], f"{name} ran without the revision"


# ---- paging ---------------------------------------------------------------------------------------------------------


async def test_consistency_pages_are_whole_and_stable_under_inserts(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    originals = [
        one.unit_id for one in await client.put(session_id, [UnitInput("observation", f"unit {n}") for n in range(50)])
    ]
    key = await service.api_key(tenant, "agent-a")
    request = context_pb.ListUnitsRequest(session_id=session_id, page_size=7)
    request.consistency.at_least_as_fresh.token = client.last_revision
    seen: list[Any] = []
    for number in range(100):
        page: Any = await stubs.call("ListUnits", request, key)
        assert not isinstance(page, Refusal)
        assert len(page.units) <= 7
        seen.extend(page.units)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
        if number < 6:
            await client.put(session_id, [UnitInput("observation", f"inserted {number}.{n}") for n in range(3)])
            await client.delete(session_id, [seen[0].unit_id] if number == 2 else ["aaaaaaaaaaaa"])

    ids = [unit.unit_id for unit in seen]
    assert len(ids) == len(set(ids)), "nothing twice"
    assert [unit_id for unit_id in ids if unit_id in set(originals)] == originals, "all that were there, in order"
    order = [(unit.created_time.ToNanoseconds(), unit.unit_id) for unit in seen]
    assert order == sorted(order)
    assert len(ids) == 50 + 18, "what came later stands at the end"


async def test_consistency_a_page_token_holds_for_its_list_and_caller_only(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    await client.put(session_id, [UnitInput("observation", f"unit {n}") for n in range(5)])
    key, other = await service.api_key(tenant, "agent-a"), await service.api_key(tenant, "agent-b")
    page: Any = await stubs.call("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_size=2), key)
    token = page.next_page_token
    wrong: list[tuple[str, Any, str]] = [
        ("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_token=token, current_only=True), key),
        ("ListUnits", context_pb.ListUnitsRequest(session_id="another", page_token=token), key),
        ("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_token=token), other),
        ("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_token=token[:-4]), key),
        ("ListPolicies", registry_pb.ListPoliciesRequest(page_token=token), key),
    ]
    for name, request, caller in wrong:
        answer = await stubs.call(name, request, caller)
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.reason) == ("INVALID_ARGUMENT", "PAGE_TOKEN_INVALID")


# ---- deadlines ------------------------------------------------------------------------------------------------------


async def _transactions(graph_driver: neo4j.AsyncDriver, name: str, tag: str) -> int:
    """Running transactions of a statement whose parameters hold the tag."""
    rows, _, _ = await graph_driver.execute_query(
        "SHOW TRANSACTIONS YIELD metaData, parameters WHERE metaData['statement'] = $name RETURN parameters", name=name
    )
    return sum(tag in str(row["parameters"]) for row in rows)


async def _eventually(measure: Callable[[], Awaitable[int]], wanted: int) -> None:
    """Returns when the measure has the wanted value; waits by counting, never by a timed assertion."""
    for _ in range(200):
        if await measure() == wanted:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"never {wanted}")


def _endless(statement: Statement) -> Statement:
    """A statement of the same name and parameters that never ends by itself."""
    text = "UNWIND range(1, 1000000000000) AS number WITH count(number) AS count RETURN count"
    return dataclasses.replace(statement, text=text)


@pytest.mark.parametrize("ending", ["deadline", "cancelled"])
async def test_consistency_a_deadline_ends_the_reading_transaction(
    service: Service,
    tenant: str,
    session_id: str,
    graph_driver: neo4j.AsyncDriver,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    store: Any = service.serving.stores.units
    monkeypatch.setattr(store, "_list", _endless(store._list))
    key = await service.api_key(tenant, "agent-a")

    async def read() -> None:
        async with GraphsvcClient(
            service.target, api_key=key, timeout_s=3.0 if ending == "deadline" else 30.0
        ) as client:
            _ = [unit async for unit in client.list(session_id)]

    reading = asyncio.create_task(read())
    await _eventually(lambda: _transactions(graph_driver, "list_units", session_id), 1)
    if ending == "cancelled":
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    else:
        with pytest.raises(GraphsvcCallError) as late:
            await reading
        assert late.value.code == "DEADLINE_EXCEEDED"
    await _eventually(lambda: _transactions(graph_driver, "list_units", session_id), 0)


async def test_consistency_a_deadline_ends_the_writing_transaction(
    service: Service, tenant: str, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    key = await service.api_key(tenant, "agent-a")
    unit = UnitInput("decision", "blocked", unit_key="blocked")
    async with GraphsvcClient(service.target, api_key=key, timeout_s=3.0) as client:
        async with graph_driver.session() as session:
            # somebody else holds the place in the unique index that the write needs
            blocking = await session.begin_transaction()
            await blocking.run(
                "CREATE (:Request {tenant_id: $tenant, agent_id: 'agent-a', request_id: $id, fingerprint: 'x'})",
                tenant=tenant,
                id=session_id,
            )
            writing = asyncio.create_task(client.put(session_id, [unit], request_id=session_id))
            await _eventually(lambda: _transactions(graph_driver, "put_units", session_id), 1)
            with pytest.raises(GraphsvcCallError) as late:
                await writing
            assert late.value.code == "DEADLINE_EXCEEDED"
            await _eventually(lambda: _transactions(graph_driver, "put_units", session_id), 0)
            await blocking.rollback()
        assert await _count_units(graph_driver, tenant) == 0, "nothing was written after all"
        (outcome,) = await client.put(session_id, [unit], request_id=session_id)
        assert outcome.created, "the same request may be sent again"


async def test_consistency_statements_of_a_retrieval_end_after_query_timeout_ms(
    frozen: FrozenService, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await frozen.service.client(await frozen.service.tenant(), "agent-a")
    ids = await put_around(client, session_id, [around("anchor", "a", 20)])
    limits: dict[str, int] = {}
    real = GraphDriver.read

    async def read(self: GraphDriver, statement: Statement, params: Any, **options: Any) -> Any:
        limits[statement.name] = options["timeout_ms"]
        return await real(self, statement, params, **options)

    monkeypatch.setattr(GraphDriver, "read", read)
    await client.retrieve(session_id, "apple", anchor_unit_ids=[ids["anchor"]], retrieval_budget=500)

    allowed = frozen.service.serving.settings.query_timeout_ms
    for name in ("search_topic", "expand_from_anchors", "read_session"):
        assert 0 < limits[name] <= allowed, name


# ---- errors ---------------------------------------------------------------------------------------------------------

Prepare = Callable[[Any], Awaitable[tuple[str, Message, str | None]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Faults:
    """What a case of the table below needs."""

    service: Service
    tenant: str
    key: str
    session_id: str
    ids: dict[str, str]
    monkeypatch: pytest.MonkeyPatch

    def raising(self, owner: object, name: str, error: Exception) -> None:
        """Lets a method fail until the test ends."""

        async def fail(*_: object, **__: object) -> object:
            raise error

        self.monkeypatch.setattr(owner, name, fail)


def _retrieve(at: Faults, **fields: Any) -> Message:
    return retrieval_pb.RetrieveRequest(
        session_id=at.session_id, query="x", **{"budget": retrieval_pb.RetrievalBudget(retrieval_budget=500), **fields}
    )


def _link(at: Faults, source: str, target: str, edge_type: int) -> Message:
    relation = core_pb2.Relation(target_id=target, edge_type=edge_type)  # type: ignore[arg-type]
    edge = context_pb.UnitEdge(source_id=source, relation=relation)
    return context_pb.LinkUnitsRequest(request_id="link", session_id=at.session_id, edges=[edge])


async def _malformed(at: Faults) -> tuple[str, Message, str | None]:
    return "Retrieve", _retrieve(at, max_hops=9), at.key


async def _no_key(at: Faults) -> tuple[str, Message, str | None]:
    return "Retrieve", _retrieve(at), None


async def _no_role(at: Faults) -> tuple[str, Message, str | None]:
    return "Retrieve", _retrieve(at), await at.service.api_key(at.tenant, "agent-a", frozenset({Role.WRITER}))


async def _no_unit(at: Faults) -> tuple[str, Message, str | None]:
    return "LinkUnits", _link(at, at.ids["new"], "aaaaaaaaaaaa", 1), at.key


async def _other_unit(at: Faults) -> tuple[str, Message, str | None]:
    unit = core_pb2.ContextUnit(kind=core_pb2.CONTEXT_UNIT_KIND_DECISION, content="other", unit_key="old")
    return "PutUnits", context_pb.PutUnitsRequest(request_id="r", session_id=at.session_id, units=[unit]), at.key


async def _wrong_order(at: Faults) -> tuple[str, Message, str | None]:
    return "LinkUnits", _link(at, at.ids["old"], at.ids["new"], 3), at.key


async def _too_many(at: Faults) -> tuple[str, Message, str | None]:
    at.monkeypatch.setattr("graphsvc.graph.tenant_store.MAX_POLICIES_OF_GRANTEE", 0)
    return "CreatePolicy", registry_pb.CreatePolicyRequest(request_id="p", policy=registry_pb.Policy()), at.key


async def _contention(at: Faults) -> tuple[str, Message, str | None]:
    error = Aborted(ErrorReason.GRAPH_CONTENTION, "lost against concurrent writes; try again")
    at.raising(GraphDriver, "write_many", error)
    unit = core_pb2.ContextUnit(kind=core_pb2.CONTEXT_UNIT_KIND_DECISION, content="x")
    return "PutUnits", context_pb.PutUnitsRequest(request_id="r", session_id=at.session_id, units=[unit]), at.key


async def _no_time(at: Faults) -> tuple[str, Message, str | None]:
    store: Any = at.service.serving.stores.units
    at.monkeypatch.setattr(store, "_list", _endless(store._list))
    at.monkeypatch.setattr("graphsvc.server.requests.READ_TIMEOUT_MS", 300)
    return "ListUnits", context_pb.ListUnitsRequest(session_id=at.session_id), at.key


async def _pending(at: Faults) -> tuple[str, Message, str | None]:
    error = Unavailable(ErrorReason.CONTENT_PENDING, "the content is not here yet; try again", retry_delay_ms=250)
    at.raising(ContentTiers, "get", error)
    return "GetUnits", context_pb.GetUnitsRequest(session_id=at.session_id, unit_ids=[at.ids["old"]]), at.key


async def _corrupt(at: Faults) -> tuple[str, Message, str | None]:
    at.raising(ContentTiers, "get", DataLoss(ErrorReason.CONTENT_CORRUPT, "the content is damaged"))
    return "GetUnits", context_pb.GetUnitsRequest(session_id=at.session_id, unit_ids=[at.ids["old"]]), at.key


async def _bug(at: Faults) -> tuple[str, Message, str | None]:
    at.raising(ContentTiers, "get", RuntimeError("MATCH (secret) RETURN parameters"))
    return "GetUnits", context_pb.GetUnitsRequest(session_id=at.session_id, unit_ids=[at.ids["old"]]), at.key


ERRORS: dict[str, tuple[Prepare, str, set[str]]] = {
    "INVALID_ARGUMENT": (_malformed, "FIELD_INVALID", {"BadRequest"}),
    "UNAUTHENTICATED": (_no_key, "CREDENTIALS_MISSING", set()),
    "PERMISSION_DENIED": (_no_role, "ROLE_MISSING", set()),
    "NOT_FOUND": (_no_unit, "UNIT_NOT_FOUND", set()),
    "ALREADY_EXISTS": (_other_unit, "UNIT_DIFFERS", set()),
    "FAILED_PRECONDITION": (_wrong_order, "SUPERSESSION_ORDER", set()),
    "RESOURCE_EXHAUSTED": (_too_many, "LIMIT_EXCEEDED", {"QuotaFailure"}),
    "ABORTED": (_contention, "GRAPH_CONTENTION", set()),
    "DEADLINE_EXCEEDED": (_no_time, "DEADLINE_PASSED", set()),
    "UNAVAILABLE": (_pending, "CONTENT_PENDING", {"RetryInfo"}),
    "DATA_LOSS": (_corrupt, "CONTENT_CORRUPT", set()),
    "INTERNAL": (_bug, "INTERNAL_FAULT", set()),
}


def test_consistency_every_kind_of_error_has_a_case() -> None:
    assert set(ERRORS) == {code.name for code in CODES.values()}


@pytest.mark.parametrize("code", ERRORS)
async def test_consistency_every_kind_of_error_has_its_details(
    service: Service,
    stubs: Stubs,
    tenant: str,
    client: GraphsvcClient,
    session_id: str,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
) -> None:
    prepare, reason, more = ERRORS[code]
    outcomes = await client.put(
        session_id, [UnitInput("decision", "old", unit_key="old"), UnitInput("decision", "new", unit_key="new")]
    )
    ids = {one.unit_key: one.unit_id for one in outcomes}
    key = await service.api_key(tenant, "agent-a")
    name, request, caller = await prepare(Faults(service, tenant, key, session_id, ids, monkeypatch))
    answer = await stubs.call(name, request, caller)

    assert isinstance(answer, Refusal)
    assert (answer.code, answer.reason) == (code, reason)
    assert set(answer.details) == {"ErrorInfo", "RequestInfo"} | more
    assert answer.details["ErrorInfo"].domain == "graphsvc"
    assert answer.details["RequestInfo"].request_id
    assert answer.message
    for secret in ("MATCH", "Neo.", "neo4j", "Traceback", "RuntimeError"):
        assert secret not in answer.message
    if "BadRequest" in more:
        assert [one.field for one in answer.details["BadRequest"].field_violations] == ["max_hops"]
    if "RetryInfo" in more:
        assert answer.details["RetryInfo"].retry_delay.ToMilliseconds() == 250
    if code == "INTERNAL":
        assert answer.details["RequestInfo"].request_id in answer.message


# ---- determinism ----------------------------------------------------------------------------------------------------


async def test_consistency_same_graph_clock_and_query_give_the_same_bytes(
    frozen: FrozenService, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    tenant = await frozen.service.tenant()
    client = await frozen.service.client(tenant, "agent-a")
    key = await frozen.service.api_key(tenant, "agent-a")
    # many ties: equal in everything but the id
    ids = await put_around(client, session_id, [around("anchor", f"u{n:02}", 40, task_id="T") for n in range(30)])
    asked = [
        {"query": "apple river stone"},
        {"task_id": "T"},
        {"query": "apple river", "anchor_unit_ids": [ids["anchor"]], "max_hops": 2},
    ]
    async with Stubs(frozen.service.target) as stubs:
        for fields in asked:
            request = retrieval_pb.RetrieveRequest(
                session_id=session_id, budget=retrieval_pb.RetrievalBudget(retrieval_budget=700), **fields
            )
            answers: set[bytes] = set()
            for _ in range(4):
                answer: Any = await stubs.call("Retrieve", request, key)
                assert answer.outcome == retrieval_pb.RETRIEVAL_OUTCOME_SELECTED
                for volatile in ("retrieval_id", "duration_ms", "revision"):
                    answer.ClearField(volatile)
                answers.add(answer.SerializeToString(deterministic=True))
                # what was delivered before is part of the graph: the same graph is one without it
                await graph_driver.execute_query(
                    "MATCH (r:Retrieval {tenant_id: $tenant}) DETACH DELETE r", tenant=tenant
                )
            assert len(answers) == 1
