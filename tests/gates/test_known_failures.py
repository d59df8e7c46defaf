"""Kinds of failure that users of such systems have been hit by, each as a gate of its own (KF)."""

from __future__ import annotations

import asyncio
import math
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import neo4j
import pytest
from botocore.config import Config
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from graphsvc.client import EdgeInput, GraphsvcCallError, GraphsvcClient, RelationInput, UnitInput
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import InvalidArgument, NotFound
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.ports import WriteRequest
from graphsvc.ranking.calibration import calibrate, report_to_json
from graphsvc.v1 import (
    context_service_pb2 as context_pb,
)
from graphsvc.v1 import (
    core_pb2,
)
from graphsvc.v1 import (
    predictor_service_pb2 as predictor_pb,
)
from graphsvc.v1 import (
    registry_service_pb2 as registry_pb,
)
from graphsvc.v1 import (
    retrieval_service_pb2 as retrieval_pb,
)
from tests.gates.conftest import FrozenService
from tests.gates.independent_tokens import IndependentTokens
from tests.gates.stubs import Refusal, Stubs
from tests.gates.worlds import around, by_key, put_around, text_of
from tests.support.service import Service

AMPLE = 100_000
HUB_EDGES = 10_000


@pytest.fixture
async def tenant(service: Service) -> str:
    """A tenant of its own."""
    return await service.tenant()


@pytest.fixture
async def client(service: Service, tenant: str) -> GraphsvcClient:
    """An agent of that tenant."""
    return await service.client(tenant, "agent-a")


# ---- isolation ------------------------------------------------------------------------------------------------------


async def test_KF_same_unit_key_in_two_tenants_agents_and_sessions(service: Service, session_id: str) -> None:
    first, second = await service.tenant(), await service.tenant()
    places = [(first, "agent-a", session_id), (first, "agent-a", "s-2"), (first, "agent-b", session_id)]
    places += [(second, "agent-a", session_id)]
    written: list[tuple[GraphsvcClient, str, str, str]] = []
    for number, (tenant, agent, session) in enumerate(places):
        client = await service.client(tenant, agent)
        (outcome,) = await client.put(session, [UnitInput("decision", f"decision {number}", unit_key="the key")])
        assert outcome.created
        written.append((client, session, outcome.unit_id, f"decision {number}"))

    assert len({unit_id for _, _, unit_id, _ in written}) == len(places)
    for client, session, unit_id, content in written:
        (unit,) = (await client.get(session, [unit_id])).units
        assert unit.content == content


async def test_KF_empty_scopes_are_nothing_and_never_everything(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    await client.put(session_id, [UnitInput("decision", "private")])
    key = await service.api_key(tenant, "agent-a")
    budget = retrieval_pb.RetrievalBudget(retrieval_budget=1_000)
    no_session: list[tuple[str, Message]] = [
        ("GetUnits", context_pb.GetUnitsRequest(unit_ids=["aaaaaaaaaaaa"])),
        ("ListUnits", context_pb.ListUnitsRequest()),
        ("Retrieve", retrieval_pb.RetrieveRequest(query="private", budget=budget)),
        ("ExplainRetrieval", retrieval_pb.ExplainRetrievalRequest(retrieval_id="r")),
        ("PutUnits", context_pb.PutUnitsRequest(request_id="r", units=[core_pb2.ContextUnit(kind=2, content="x")])),
        ("DeleteUnits", context_pb.DeleteUnitsRequest(request_id="r", unit_ids=["aaaaaaaaaaaa"])),
        ("GetUnits", context_pb.GetUnitsRequest(session_id=session_id)),
        ("DeleteUnits", context_pb.DeleteUnitsRequest(request_id="r", session_id=session_id)),
        ("Retrieve", retrieval_pb.RetrieveRequest(session_id=session_id, budget=budget)),
    ]
    for name, request in no_session:
        answer = await stubs.call(name, request, key)
        assert isinstance(answer, Refusal), name
        assert (answer.code, answer.reason) == ("INVALID_ARGUMENT", "FIELD_REQUIRED"), name

    with pytest.raises(InvalidArgument):
        await service.api_key(tenant, "agent-a", frozenset())
    assert len([unit async for unit in client.list(session_id)]) == 1


async def test_KF_writes_to_an_unknown_tenant_are_refused(
    service: Service, graph_driver: neo4j.AsyncDriver, tenant_id: str, session_id: str
) -> None:
    with pytest.raises(NotFound):
        await service.api_key(tenant_id, "agent-a")

    # a key whose tenant is gone
    client = await service.client(await service.tenant(tenant_id), "agent-a")
    await graph_driver.execute_query("MATCH (t:Tenant {tenant_id: $id}) DELETE t", id=tenant_id)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: client.put(session_id, [UnitInput("decision", "lost?")]),
        client.create_policy,
        lambda: client.delete(session_id, ["aaaaaaaaaaaa"]),
    ]
    for call in calls:
        with pytest.raises(GraphsvcCallError) as refused:
            await call()
        assert (refused.value.code, refused.value.reason) == ("NOT_FOUND", "TENANT_NOT_FOUND")
    (row,), _, _ = await graph_driver.execute_query(
        "MATCH (n) WHERE n.tenant_id = $id AND NOT n:ApiKey AND NOT n:Agent RETURN count(n) AS n", id=tenant_id
    )
    assert row["n"] == 0


async def test_KF_two_tenants_with_fifty_writers_each_keep_their_data(service: Service) -> None:
    clients = [await service.client(await service.tenant(), "agent-a") for _ in range(2)]

    async def write(which: int, number: int) -> None:
        await clients[which].put(
            "shared name", [UnitInput("observation", f"tenant {which} writer {number}", unit_key=f"w{number}")]
        )

    await asyncio.gather(*(write(which, number) for number in range(50) for which in range(2)))
    for which, client in enumerate(clients):
        contents = [unit.content async for unit in client.list("shared name", with_content=True)]
        assert sorted(contents) == sorted(f"tenant {which} writer {number}" for number in range(50))


# ---- lost or doubled writes -----------------------------------------------------------------------------------------


async def test_KF_twenty_concurrent_first_messages_make_one_session(
    tenant: str, client: GraphsvcClient, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    await asyncio.gather(
        *(
            client.put(session_id, [UnitInput("observation", f"message {n}", task_id="T", unit_key=f"m{n}")])
            for n in range(20)
        )
    )
    (row,), _, _ = await graph_driver.execute_query(
        """
        RETURN COUNT { (:Session {tenant_id: $tenant, agent_id: 'agent-a', session_id: $session}) } AS sessions,
          COUNT { (:Agent {tenant_id: $tenant}) } AS agents, COUNT { (:Task {tenant_id: $tenant}) } AS tasks
        """,
        tenant=tenant,
        session=session_id,
    )
    assert (row["sessions"], row["agents"], row["tasks"]) == (1, 1, 1)
    assert len([unit async for unit in client.list(session_id)]) == 20


async def test_KF_creates_and_deletes_around_one_hub_lose_nothing(client: GraphsvcClient, session_id: str) -> None:
    ids = await put_around(client, session_id, [around("anchor", f"old{n}", 10) for n in range(30)])
    relation = RelationInput("causation", target_id=ids["anchor"], role="again")

    async def one(n: int) -> None:
        if n % 3 == 0:
            await client.delete(session_id, [ids[f"old{n}"]])
        elif n % 3 == 1:
            assert await client.link(session_id, [EdgeInput(ids[f"old{n}"], relation)]) == (True,)
        else:
            await client.put(session_id, [around("anchor", f"new{n}", 10)])

    await asyncio.gather(*(one(n) for n in range(30)))
    units = {unit.unit_key: unit async for unit in client.list(session_id)}
    assert set(units) == {"anchor"} | {f"old{n}" for n in range(30) if n % 3} | {f"new{n}" for n in range(2, 30, 3)}
    for n in range(1, 30, 3):
        assert len(units[f"old{n}"].relations) == 2


async def test_KF_a_deleted_unit_is_gone_from_every_index_and_store(
    service: Service,
    store_endpoints: StackEndpoints,
    tenant: str,
    client: GraphsvcClient,
    session_id: str,
    graph_driver: neo4j.AsyncDriver,
) -> None:
    word = f"zqxjkverased{session_id[2:]}"
    content = f"remember {word} for ever"
    first, kept = await client.put(
        session_id, [UnitInput("constraint", content, path=f"{word}.md"), UnitInput("decision", "kept")]
    )
    (unit,) = (await client.get(session_id, [first.unit_id])).units
    answer = await client.retrieve(session_id, f"what of {word[:6]} erased", retrieval_budget=1_000)
    s3 = boto3.client(
        "s3",
        endpoint_url=store_endpoints.s3_endpoint,
        aws_access_key_id=store_endpoints.s3_access_key,
        aws_secret_access_key=store_endpoints.s3_secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )

    def content_of(bucket: str, key: str) -> bytes:
        try:
            return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:  # removed since it was listed
            return b""

    def objects_with(text: str) -> int:
        bucket = service.serving.settings.s3_bucket
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [
            item["Key"] for page in pages for item in page.get("Contents", ()) if unit.content_sha256 in item["Key"]
        ]
        return sum(text.encode() in content_of(bucket, key) for key in keys)

    await _until(lambda: asyncio.to_thread(objects_with, word), 1)
    assert await _lmdb_values_with(service, word) >= 1
    assert await client.delete(session_id, [first.unit_id]) == (first.unit_id,)

    found = await client.get(session_id, [first.unit_id, kept.unit_id])
    assert found.missing_ids == (first.unit_id,)
    assert [one.unit_id async for one in client.list(session_id)] == [kept.unit_id]
    again = await client.retrieve(session_id, word, anchor_unit_ids=[first.unit_id], retrieval_budget=1_000)
    assert first.unit_id not in {one.unit_id for one in again.candidates}
    assert again.anchor_ids == () or first.unit_id not in again.anchor_ids
    assert word not in again.payload

    assert await _lmdb_values_with(service, word) == 0
    await _until(lambda: asyncio.to_thread(objects_with, word), 0)
    (row,), _, _ = await graph_driver.execute_query(
        """
        RETURN COUNT { MATCH (n:ContextUnit {tenant_id: $tenant, unit_id: $id}) }
            + COUNT { MATCH (n:UnitEmbedding {tenant_id: $tenant, unit_id: $id}) } AS nodes,
          COUNT { MATCH (n:ContextUnit|Request|Task|Session {tenant_id: $tenant})
            WHERE any(key IN keys(n) WHERE n[key] IS :: STRING AND n[key] CONTAINS $word) } AS mentions,
          COUNT { MATCH (r:Retrieval {tenant_id: $tenant, retrieval_id: $earlier})
            WHERE r.candidates_json CONTAINS $content } AS logs
        """,
        tenant=tenant,
        id=first.unit_id,
        word=word,
        earlier=answer.retrieval_id,
        content=content,
    )
    assert (row["nodes"], row["mentions"], row["logs"]) == (0, 0, 0)
    for index in ("unit_text_english", "unit_text_cjk"):
        rows, _, _ = await graph_driver.execute_query(
            "CALL db.index.fulltext.queryNodes($index, $query) YIELD node RETURN node.unit_id AS id",
            index=index,
            query=word,
        )
        assert rows == []


async def _until(measure: Callable[[], Awaitable[int]], wanted: int) -> None:
    """Returns when the measure has the wanted value; the outbox carries changes to S3 by itself."""
    for _ in range(200):
        value = await measure()
        if value == wanted:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"still {value} and not {wanted} objects hold the content")


async def _lmdb_values_with(service: Service, text: str) -> int:
    """Values of the service's LMDB that hold a text, read by another process."""
    script = (
        "import lmdb, sys\n"
        "env = lmdb.open(sys.argv[1], readonly=True, max_dbs=16)\n"
        "count = 0\n"
        "with env.begin() as txn:\n"
        "    names = [bytes(key) for key, _ in txn.cursor()]\n"
        "    for name in names:\n"
        "        try:\n"
        "            db = env.open_db(name, txn=txn, create=False)\n"
        "        except lmdb.Error:\n"
        "            continue\n"
        "        count += sum(sys.argv[2].encode() in bytes(value) for _, value in txn.cursor(db))\n"
        "print(count)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(service.serving.settings.warm_path), text, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return int(output)


# ---- ranking --------------------------------------------------------------------------------------------------------


async def test_KF_a_superseded_fact_never_outranks_its_successor(client: GraphsvcClient, session_id: str) -> None:
    old_time, new_time = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    await client.put(
        session_id,
        [
            UnitInput("decision", "zqxjkvport is 8080 zqxjkvport", unit_key="old", timestamp=old_time, task_id="T"),
            UnitInput(
                "decision",
                "the zqxjkvport has been moved to 9090, see the notes of the meeting",
                unit_key="new",
                timestamp=new_time,
                task_id="T",
                relations=[RelationInput("supersession", target_key="old")],
            ),
        ],
    )
    for asked in ({"query": "zqxjkvport"}, {"task_id": "T"}, {"query": "zqxjkvport", "task_id": "T"}):
        answer = await client.retrieve(session_id, retrieval_budget=1_000, **asked)
        assert [unit.unit_key for unit in answer.units] == ["new"]
        found = by_key(answer)
        if "old" in found:
            assert found["old"].disposition is Disposition.SUPERSEDED
            assert found["old"].superseded_by == found["new"].unit_id
            assert found["old"].rank > found["new"].rank

        past = await client.retrieve(session_id, retrieval_budget=1_000, as_of=old_time + timedelta(days=1), **asked)
        assert [unit.unit_key for unit in past.units] == ["old"], "the past is as it was"
        assert set(by_key(past)) == {"old"}


async def test_KF_one_fact_stored_several_times_does_not_crowd_the_budget(
    client: GraphsvcClient, session_id: str
) -> None:
    content = text_of("the fact", 90)
    copies = [around("anchor", f"copy{n}", 0, content=content) for n in range(9)]
    ids = await put_around(client, session_id, [*copies, around("anchor", "another", 90)])
    answer = await client.retrieve(session_id, anchor_unit_ids=[ids["anchor"]], retrieval_budget=260)

    assert [unit.content for unit in answer.units].count(content) == 1
    assert "another" in {unit.unit_key for unit in answer.units}
    dispositions = Counter(one.disposition for one in answer.candidates if one.unit_key.startswith("copy"))
    assert dispositions == {Disposition.SELECTED: 1, Disposition.DUPLICATE: 8}


async def test_KF_distance_is_more_than_adjacency(client: GraphsvcClient, session_id: str) -> None:
    ids = await put_around(
        client,
        session_id,
        [
            around(near, far, 20)
            for near, far in (("anchor", "one"), ("one", "two"), ("two", "three"), ("three", "four"))
        ],
    )
    answer = await client.retrieve(session_id, anchor_unit_ids=[ids["anchor"]], max_hops=4, retrieval_budget=AMPLE)

    found = by_key(answer)
    hops = [found[key].graph_path.hop_count for key in ("one", "two", "three", "four")]  # type: ignore[union-attr]
    values = [found[key].value for key in ("one", "two", "three", "four")]
    assert hops == [1, 2, 3, 4]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 4


# ---- budget ---------------------------------------------------------------------------------------------------------


async def test_KF_a_first_result_larger_than_the_budget_does_not_drop_the_rest(
    client: GraphsvcClient, session_id: str, tokens: IndependentTokens
) -> None:
    big = UnitInput("correction", text_of("zqxjkvbig", 1_500), unit_key="big", task_id="T")
    small = [UnitInput("observation", text_of(f"small{n}", 60), unit_key=f"s{n}", task_id="T") for n in range(3)]
    await client.put(session_id, [big, *small])
    answer = await client.retrieve(session_id, "zqxjkvbig", task_id="T", retrieval_budget=400)

    found = by_key(answer)
    assert found["big"].value == max(one.value for one in answer.candidates)
    assert found["big"].disposition is Disposition.OVER_BUDGET
    assert found["big"].detail
    assert {unit.unit_key for unit in answer.units} == {"s0", "s1", "s2"}
    assert tokens.count(answer.payload, answer.encoding) == answer.ledger.tokens_spent <= 400


async def test_KF_nothing_fits_is_said(client: GraphsvcClient, session_id: str) -> None:
    await client.put(session_id, [UnitInput("correction", text_of("big", 900), task_id="T")])
    answer = await client.retrieve(session_id, task_id="T", retrieval_budget=400)

    assert answer.outcome is Outcome.NOTHING_FITS
    assert (answer.payload, answer.ledger.tokens_spent) == ("", 0)


async def test_KF_the_empty_answers_differ(service: Service, tenant: str, client: GraphsvcClient) -> None:
    await client.put("s", [UnitInput("decision", text_of("something", 20), task_id="T")])
    asked: dict[Outcome, Awaitable[Any]] = {
        Outcome.BUDGET_TOO_SMALL: client.retrieve("s", "something", retrieval_budget=10),
        Outcome.NOTHING_MATCHED: client.retrieve("s", "something", kinds=["correction"], retrieval_budget=500),
        Outcome.NOTHING_PERMITTED: client.retrieve("empty session", "something", retrieval_budget=500),
    }
    details: set[str] = set()
    for outcome, call in asked.items():
        answer = await call
        assert answer.outcome is outcome
        assert answer.candidate_count == len(answer.candidates)
        details.add(answer.outcome_detail)
    assert len(details) == len(asked)


async def test_KF_a_query_without_words_is_an_empty_answer_with_a_reason(
    client: GraphsvcClient, session_id: str
) -> None:
    await client.put(
        session_id, [UnitInput("decision", "something that must not be found"), UnitInput("decision", "x")]
    )
    for query in ("?!… --- ()", "the and of", "*:*", "🙂", "~", '"'):
        answer = await client.retrieve(session_id, query, retrieval_budget=1_000)
        assert all(one.full_text_score is None for one in answer.candidates), "only punctuation returned a document"
        assert any("no searchable word" in notice for notice in answer.notices)


async def test_KF_reads_page_and_every_batch_has_a_limit(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    for start in range(0, 240, 120):
        await client.put(session_id, [UnitInput("observation", f"unit {start + n}") for n in range(120)])
    key = await service.api_key(tenant, "agent-a")
    page = await stubs.call("ListUnits", context_pb.ListUnitsRequest(session_id=session_id), key)
    assert isinstance(page, context_pb.ListUnitsResponse)
    assert len(page.units) == 100
    assert page.next_page_token

    unit = core_pb2.ContextUnit(kind=2, content="x")
    edge = context_pb.UnitEdge(source_id="a" * 12, relation=core_pb2.Relation(target_id="b" * 12, edge_type=1))
    over: list[tuple[str, Message]] = [
        ("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_size=1_001)),
        ("ListUnits", context_pb.ListUnitsRequest(session_id=session_id, page_size=-1)),
        ("GetUnits", context_pb.GetUnitsRequest(session_id=session_id, unit_ids=[f"{n:012}" for n in range(1_001)])),
        ("PutUnits", context_pb.PutUnitsRequest(request_id="r", session_id=session_id, units=[unit] * 1_001)),
        ("LinkUnits", context_pb.LinkUnitsRequest(request_id="r", session_id=session_id, edges=[edge] * 1_001)),
        (
            "Retrieve",
            retrieval_pb.RetrieveRequest(
                session_id=session_id, query="q" * 33_000, budget=retrieval_pb.RetrievalBudget(retrieval_budget=500)
            ),
        ),
        (
            "Retrieve",
            retrieval_pb.RetrieveRequest(
                session_id=session_id,
                query="q",
                max_hops=5,
                budget=retrieval_pb.RetrievalBudget(retrieval_budget=500),
            ),
        ),
    ]
    for name, request in over:
        answer = await stubs.call(name, request, key)
        assert isinstance(answer, Refusal), name
        assert answer.code == "INVALID_ARGUMENT", name
        assert answer.reason in {"FIELD_TOO_LARGE", "FIELD_INVALID"}, name


@pytest.mark.parametrize("vector", [[1.0] * 3, [0.0] * 256, [math.nan] + [1.0] * 255, [math.inf] + [1.0] * 255])
async def test_KF_unusable_vectors_are_refused_at_write_and_in_queries(
    client: GraphsvcClient, session_id: str, vector: list[float]
) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: client.put(session_id, [UnitInput("decision", "x", embedding=vector)]),
        lambda: client.retrieve(session_id, "x", query_embedding=vector, retrieval_budget=500),
    ]
    for call in calls:
        with pytest.raises(GraphsvcCallError) as refused:
            await call()
        assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "EMBEDDING_INVALID")


# ---- scale ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hub:
    """A tenant with one unit that 10,000 others point to."""

    tenant: str
    client: GraphsvcClient
    hub_id: str
    outside_id: str


@pytest.fixture(scope="session")
async def hub(service: Service) -> Hub:
    """The hub, made through the API."""
    tenant = await service.tenant()
    client = await service.client(tenant, "agent-a")
    first = await client.put(
        "s",
        [
            UnitInput("decision", "the hub", unit_key="hub"),
            UnitInput(
                "decision",
                "a unit beside the hub",
                unit_key="outside",
                relations=[RelationInput("causation", target_key="hub")],
            ),
        ],
    )
    relation = RelationInput("dependency", target_key="hub")
    for start in range(0, HUB_EDGES, 1_000):
        await client.put(
            "s",
            [
                UnitInput("observation", f"zqxjkvneedle spoke {n}", unit_key=f"spoke{n}", relations=[relation])
                for n in range(start, start + 1_000)
            ],
        )
    return Hub(tenant, client, first[0].unit_id, first[1].unit_id)


async def test_KF_a_hub_of_ten_thousand_edges_is_cut_and_said_to_be(hub: Hub) -> None:
    at_hub = await hub.client.retrieve(
        "s", anchor_unit_ids=[hub.hub_id], max_hops=4, retrieval_budget=5_000, max_described_candidates=1_000
    )
    assert at_hub.partial, "more edges than one hop reads"
    assert at_hub.outcome is Outcome.SELECTED
    assert 0 < at_hub.candidate_count <= 401

    beside = await hub.client.retrieve(
        "s", anchor_unit_ids=[hub.outside_id], max_hops=4, retrieval_budget=5_000, max_described_candidates=1_000
    )
    walked = {one.unit_key for one in beside.candidates if one.graph_path is not None}
    assert walked == {"outside", "hub"}, "a hub is reached, not passed through"
    assert not beside.partial


async def test_KF_a_small_tenant_beside_a_large_one_gets_its_k(service: Service, hub: Hub, session_id: str) -> None:
    other_agent = await service.client(hub.tenant, "agent-b")
    other_tenant = await service.client(await service.tenant(), "agent-a")
    for client in (other_agent, other_tenant):
        await client.put(
            session_id, [UnitInput("observation", f"a zqxjkvneedle in words of its own, {n}") for n in range(10)]
        )
        answer = await client.retrieve(session_id, "zqxjkvneedle spoke", retrieval_budget=AMPLE)
        assert len(answer.units) == 10
        assert all(one.full_text_score is not None for one in answer.candidates)
        assert all(one.vector_score is not None for one in answer.candidates)


# ---- every parameter has an effect ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """Units, a policy and a retrieval that requests can be made about."""

    tenant: str
    stubs: Stubs
    key: str
    session_id: str
    ids: dict[str, str]
    revision: str
    policy_id: str
    retrieval_id: str
    graph_driver: neo4j.AsyncDriver


async def _make_world(service: Service, stubs: Stubs, graph_driver: neo4j.AsyncDriver) -> World:
    """A small world with one of everything, in a tenant of its own; all worlds are the same but for their ids."""
    tenant, session_id = await service.tenant(), "the session"
    client = await service.client(tenant, "agent-a")
    ids = await put_around(
        client,
        session_id,
        [
            around("anchor", "near", 30, path="src/near.py", task_id="T-1", timestamp=datetime(2026, 1, 1, tzinfo=UTC)),
            around("near", "far", 30, kind="decision", path="docs/far.md"),
            around("anchor", "cause", 30, edge_type="causation"),
            UnitInput("decision", "old rule", unit_key="old"),
            UnitInput(
                "decision", "new rule", unit_key="new", relations=[RelationInput("supersession", target_key="old")]
            ),
            UnitInput("observation", "elsewhere entirely", unit_key="alone", embedding=[1.0] + [0.0] * 255),
        ],
    )
    neighbour = await service.client(tenant, "agent-b")
    await neighbour.put("s-b", [UnitInput("decision", "shared by a neighbour", unit_key="theirs")])
    await neighbour.create_policy(grantee_agent_id="agent-a")
    policy = await client.create_policy(grantee_agent_id="agent-b")
    await _save_predictors(service, tenant)
    answer = await client.retrieve(session_id, "rule", retrieval_budget=500)
    return World(
        tenant,
        stubs,
        await service.api_key(tenant, "agent-a"),
        session_id,
        ids,
        client.last_revision,
        policy.policy_id,
        answer.retrieval_id,
        graph_driver,
    )


async def _save_predictors(service: Service, tenant: str) -> None:
    """Two versions that were not adopted."""
    for number in (1, 2):
        fitted = calibrate((), None)
        version = PredictorVersion(
            version=number,
            created_time=datetime(2026, 1, number, tzinfo=UTC),
            prior_version="prior",
            intercept=fitted.intercept,
            weights=fitted.weights,
            reference_rates=fitted.reference_rates,
            retrieval_count=0,
            example_count=0,
            adopted=False,
            report_json=report_to_json(fitted.report),
        )
        admin = Principal(tenant, "agent-a", "", frozenset())
        request = WriteRequest(f"predictor {number}", "0" * 64, 10_000)
        await service.serving.stores.predictors.save_predictor(admin, version, 0, request)


@pytest.fixture(scope="session")
async def world_for_reads(frozen: FrozenService, graph_driver: neo4j.AsyncDriver) -> AsyncIterator[World]:
    """A world that no test changes, on a service whose clock stands still: age is part of a value."""
    async with Stubs(frozen.service.target) as stubs:
        yield await _make_world(frozen.service, stubs, graph_driver)


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def _base(world: World, message: str) -> tuple[str, Message]:
    """RPC and request of a message in its plainest form."""
    at, ids = world.session_id, world.ids
    edge = context_pb.UnitEdge(
        source_id=ids["new"], relation=core_pb2.Relation(target_id=ids["alone"], edge_type=1, role="r")
    )
    existing = context_pb.UnitEdge(
        source_id=ids["near"], relation=core_pb2.Relation(target_id=ids["anchor"], edge_type=1)
    )
    bases: dict[str, tuple[str, Message]] = {
        "PutUnitsRequest": (
            "PutUnits",
            context_pb.PutUnitsRequest(
                request_id="base", session_id=at, units=[core_pb2.ContextUnit(kind=2, content="base", unit_key="base")]
            ),
        ),
        "GetUnitsRequest": ("GetUnits", context_pb.GetUnitsRequest(session_id=at, unit_ids=[ids["near"]])),
        "ListUnitsRequest": ("ListUnits", context_pb.ListUnitsRequest(session_id=at)),
        "DeleteUnitsRequest": (
            "DeleteUnits",
            context_pb.DeleteUnitsRequest(request_id="base", session_id=at, unit_ids=[ids["far"]]),
        ),
        "LinkUnitsRequest": ("LinkUnits", context_pb.LinkUnitsRequest(request_id="base", session_id=at, edges=[edge])),
        "UnlinkUnitsRequest": (
            "UnlinkUnits",
            context_pb.UnlinkUnitsRequest(request_id="base", session_id=at, edges=[existing]),
        ),
        "RetrieveRequest": (
            "Retrieve",
            retrieval_pb.RetrieveRequest(
                session_id=at,
                query="apple river",
                anchor_unit_ids=[ids["anchor"]],
                budget=retrieval_pb.RetrievalBudget(total_step_budget=5_000),
            ),
        ),
        "ExplainRetrievalRequest": (
            "ExplainRetrieval",
            retrieval_pb.ExplainRetrievalRequest(session_id=at, retrieval_id=world.retrieval_id),
        ),
        "ReportOutcomeRequest": (
            "ReportOutcome",
            retrieval_pb.ReportOutcomeRequest(
                session_id=at, retrieval_id=world.retrieval_id, request_id="base", output=f"[{ids['new']}]"
            ),
        ),
        "CreatePolicyRequest": (
            "CreatePolicy",
            registry_pb.CreatePolicyRequest(request_id="base", policy=registry_pb.Policy(grantee_agent_id="agent-c")),
        ),
        "ListPoliciesRequest": ("ListPolicies", registry_pb.ListPoliciesRequest()),
        "DeletePolicyRequest": (
            "DeletePolicy",
            registry_pb.DeletePolicyRequest(request_id="base", policy_id=world.policy_id),
        ),
        "RecalibratePredictorRequest": (
            "RecalibratePredictor",
            predictor_pb.RecalibratePredictorRequest(request_id="base"),
        ),
        "ListPredictorsRequest": ("ListPredictors", predictor_pb.ListPredictorsRequest()),
        "RollBackPredictorRequest": (
            "RollBackPredictor",
            predictor_pb.RollBackPredictorRequest(request_id="base", version=1),
        ),
    }
    return bases[message]


Change = Callable[[World, Any], None]


def _set(**values: Any) -> Change:
    """Sets fields; lists are extended after being cleared, messages copied."""

    def change(world: World, request: Any) -> None:
        for name, value in values.items():
            resolved = value(world) if callable(value) else value
            field = request.DESCRIPTOR.fields_by_name[name]
            if field.is_repeated:
                request.ClearField(name)
                getattr(request, name).extend(resolved)
            elif field.message_type is not None:
                getattr(request, name).CopyFrom(resolved)
            else:
                setattr(request, name, resolved)

    return change


def _token(world: World) -> core_pb2.Consistency:
    return core_pb2.Consistency(at_least_as_fresh=core_pb2.RevisionToken(token=world.revision + "x"))


def _unit(**values: Any) -> Change:
    return _set(units=lambda _: [core_pb2.ContextUnit(**{"kind": 2, "content": "base", "unit_key": "base", **values})])


def _edge(source: str = "new", **values: Any) -> Change:
    def edges(world: World) -> list[context_pb.UnitEdge]:
        resolved = {name: value(world) if callable(value) else value for name, value in values.items()}
        target = {} if "target_key" in resolved else {"target_id": world.ids["alone"]}
        relation = core_pb2.Relation(**{"edge_type": 1, "role": "r", **target, **resolved})
        return [context_pb.UnitEdge(source_id=world.ids[source], relation=relation)]

    return _set(edges=edges)


def _policy(**values: Any) -> Change:
    return _set(policy=lambda _: registry_pb.Policy(**{"grantee_agent_id": "agent-c", **values}))


def _budget(**values: Any) -> Change:
    return _set(budget=lambda _: retrieval_pb.RetrievalBudget(**values))


def _page_token(world: World) -> str:
    return "not a token"


EFFECTS: dict[str, Change] = {
    # each changes one field of the plainest request, and the answer, or what is stored, must change with it
    "PutUnitsRequest.request_id": _set(request_id=""),
    "PutUnitsRequest.session_id": _set(session_id="another session"),
    "PutUnitsRequest.model": _set(model="gpt-5"),
    "PutUnitsRequest.units": _unit(content="other"),
    "GetUnitsRequest.session_id": _set(session_id="another session"),
    "GetUnitsRequest.unit_ids": _set(unit_ids=lambda world: [world.ids["far"]]),
    "GetUnitsRequest.without_content": _set(without_content=True),
    "GetUnitsRequest.consistency": _set(consistency=_token),
    "ListUnitsRequest.session_id": _set(session_id="another session"),
    "ListUnitsRequest.kinds": _set(kinds=[core_pb2.CONTEXT_UNIT_KIND_DECISION]),
    "ListUnitsRequest.owner_agent_id": _set(owner_agent_id="agent-b"),
    "ListUnitsRequest.owner_session_id": _set(owner_session_id="s-b"),
    "ListUnitsRequest.task_id": _set(task_id="T-1"),
    "ListUnitsRequest.path_prefix": _set(path_prefix="src/"),
    "ListUnitsRequest.current_only": _set(current_only=True),
    "ListUnitsRequest.page_size": _set(page_size=2),
    "ListUnitsRequest.page_token": _set(page_token=_page_token),
    "ListUnitsRequest.with_content": _set(with_content=True),
    "ListUnitsRequest.consistency": _set(consistency=_token),
    "DeleteUnitsRequest.request_id": _set(request_id=""),
    "DeleteUnitsRequest.session_id": _set(session_id="another session"),
    "DeleteUnitsRequest.unit_ids": _set(unit_ids=lambda world: [world.ids["near"], world.ids["far"]]),
    "LinkUnitsRequest.request_id": _set(request_id=""),
    "LinkUnitsRequest.session_id": _set(session_id="another session"),
    "LinkUnitsRequest.edges": _edge(role="other"),
    "UnlinkUnitsRequest.request_id": _set(request_id=""),
    "UnlinkUnitsRequest.session_id": _set(session_id="another session"),
    "UnlinkUnitsRequest.edges": _edge("near"),
    "RetrieveRequest.session_id": _set(session_id="another session"),
    "RetrieveRequest.task_step": _set(task_step=5),
    "RetrieveRequest.model": _set(model="gpt-4"),
    "RetrieveRequest.query": _set(query="elsewhere entirely"),
    "RetrieveRequest.query_embedding": _set(query_embedding=[1.0] + [0.0] * 255),
    "RetrieveRequest.task_id": _set(task_id="T-1"),
    "RetrieveRequest.anchor_unit_ids": _set(anchor_unit_ids=lambda world: [world.ids["alone"]]),
    "RetrieveRequest.follow": _set(follow=[retrieval_pb.EdgeFilter(edge_type=core_pb2.EDGE_TYPE_CAUSATION)]),
    "RetrieveRequest.wanted_edge_types": _set(wanted_edge_types=[core_pb2.EDGE_TYPE_CAUSATION]),
    "RetrieveRequest.max_hops": _set(max_hops=1),
    "RetrieveRequest.budget": _budget(total_step_budget=4_000),
    "RetrieveRequest.kinds": _set(kinds=[core_pb2.CONTEXT_UNIT_KIND_DECISION]),
    "RetrieveRequest.as_of": _set(as_of=_stamp(datetime(2026, 1, 2, tzinfo=UTC))),
    "RetrieveRequest.consistency": _set(consistency=_token),
    "RetrieveRequest.max_described_candidates": _set(max_described_candidates=1),
    "ExplainRetrievalRequest.session_id": _set(session_id="another session"),
    "ExplainRetrievalRequest.retrieval_id": _set(retrieval_id="rother"),
    "ExplainRetrievalRequest.consistency": _set(consistency=_token),
    "ReportOutcomeRequest.session_id": _set(session_id="another session"),
    "ReportOutcomeRequest.retrieval_id": _set(retrieval_id="rother"),
    "ReportOutcomeRequest.request_id": _set(request_id=""),
    "ReportOutcomeRequest.output": _set(output="nothing"),
    "ReportOutcomeRequest.cited_unit_ids": _set(cited_unit_ids=lambda world: [world.ids["new"]]),
    "ReportOutcomeRequest.decisive_unit_ids": _set(decisive_unit_ids=lambda world: [world.ids["new"]]),
    "CreatePolicyRequest.request_id": _set(request_id=""),
    "CreatePolicyRequest.policy": _policy(grantee_agent_id="agent-d"),
    "ListPoliciesRequest.page_size": _set(page_size=1),
    "ListPoliciesRequest.page_token": _set(page_token=_page_token),
    "ListPoliciesRequest.consistency": _set(consistency=_token),
    "DeletePolicyRequest.request_id": _set(request_id=""),
    "DeletePolicyRequest.policy_id": _set(policy_id="pother"),
    "RecalibratePredictorRequest.request_id": _set(request_id=""),
    "RecalibratePredictorRequest.force": _set(force=True),
    "ListPredictorsRequest.page_size": _set(page_size=1),
    "ListPredictorsRequest.page_token": _set(page_token=_page_token),
    "ListPredictorsRequest.consistency": _set(consistency=_token),
    "RollBackPredictorRequest.request_id": _set(request_id=""),
    "RollBackPredictorRequest.version": _set(version=2),
    "RetrievalBudget.total_step_budget": _budget(total_step_budget=4_000),
    "RetrievalBudget.retrieval_budget": _budget(retrieval_budget=3_000),
    "RetrievalBudget.harness_overhead": _budget(total_step_budget=5_000, harness_overhead=100),
    "RetrievalBudget.reasoning_reserve_ratio": _budget(total_step_budget=5_000, reasoning_reserve_ratio=0.5),
    "RetrievalBudget.harness_texts": _budget(total_step_budget=5_000, harness_texts=["be careful"]),
    "RetrievalBudget.expected_steps": _budget(total_step_budget=5_000, expected_steps=9),
    "RetrievalBudget.session_tokens_remaining": _budget(
        total_step_budget=5_000, expected_steps=9, session_tokens_remaining=20_000
    ),
    "EdgeFilter.edge_type": _set(follow=[retrieval_pb.EdgeFilter(edge_type=core_pb2.EDGE_TYPE_PROVENANCE)]),
    "EdgeFilter.direction": _set(
        follow=[retrieval_pb.EdgeFilter(edge_type=edge_type, direction=2) for edge_type in (1, 2, 3, 4)]
    ),
    "UnitEdge.source_id": _edge("near"),
    "UnitEdge.relation": _edge(role="other"),
    "Relation.target_id": _edge(target_id=lambda world: world.ids["far"]),
    "Relation.target_key": _edge(target_key="far"),
    "Relation.edge_type": _edge(edge_type=4),
    "Relation.role": _edge(role="other"),
    "Relation.weight": _edge(weight=0.5),
    "Policy.owner_agent_id": _policy(owner_agent_id="agent-b"),
    "Policy.owner_session_id": _policy(owner_session_id="s"),
    "Policy.grantee_agent_id": _policy(grantee_agent_id="agent-d"),
    "Policy.grantee_session_id": _policy(grantee_session_id="s"),
    "Policy.kinds": _policy(kinds=[6]),
    "Policy.expires_time": _policy(expires_time=_stamp(datetime(2100, 1, 1, tzinfo=UTC))),
    "ContextUnit.unit_key": _unit(unit_key="other"),
    "ContextUnit.kind": _unit(kind=3),
    "ContextUnit.content": _unit(content="other"),
    "ContextUnit.timestamp": _unit(timestamp=_stamp(datetime(2026, 1, 1, tzinfo=UTC))),
    "ContextUnit.task_step": _unit(task_step=4),
    "ContextUnit.epistemic_status": _unit(epistemic_status=4),
    "ContextUnit.provenance": _unit(provenance=["a.py"]),
    "ContextUnit.relations": _unit(relations=[core_pb2.Relation(target_key="alone", edge_type=1)]),
    "ContextUnit.path": _unit(path="a.py"),
    "ContextUnit.model": _unit(model="gpt-5"),
    "ContextUnit.pinned": _unit(pinned=True),
    "ContextUnit.tool_call": _unit(kind=1, tool_call=core_pb2.ToolCall(call_id="c", name="n")),
    "ContextUnit.vendor_state": _unit(vendor_state=b"x"),
    "ContextUnit.task_id": _unit(task_id="T-9"),
    "ContextUnit.embedding": _unit(embedding=[1.0] + [0.0] * 255),
    "ToolCall.call_id": _unit(kind=1, tool_call=core_pb2.ToolCall(call_id="d", name="n")),
    "ToolCall.name": _unit(kind=1, tool_call=core_pb2.ToolCall(call_id="c", name="m")),
    "ToolCall.arguments_json": _unit(
        kind=1, tool_call=core_pb2.ToolCall(call_id="c", name="n", arguments_json='{"a": 1}')
    ),
    "Consistency.minimize_latency": _set(consistency=core_pb2.Consistency(minimize_latency=False)),
    "Consistency.at_least_as_fresh": _set(consistency=_token),
    "RevisionToken.token": _set(consistency=_token),
}

INSIDE = {
    # a message that stands inside a request, and the request its field is tried in
    "RetrievalBudget": "RetrieveRequest",
    "EdgeFilter": "RetrieveRequest",
    "UnitEdge": "LinkUnitsRequest",
    "Relation": "LinkUnitsRequest",
    "Policy": "CreatePolicyRequest",
    "ContextUnit": "PutUnitsRequest",
    "ToolCall": "PutUnitsRequest",
    "Consistency": "GetUnitsRequest",
    "RevisionToken": "GetUnitsRequest",
}
IGNORED_IN_WRITES = {
    *(
        f"ContextUnit.{name}"
        for name in (
            "unit_id", "agent_id", "session_id", "relevance_score", "tier", "created_time", "content_sha256",
            "size_bytes", "token_counts", "superseded_by",
        )
    ),
    *(f"Policy.{name}" for name in ("policy_id", "created_time", "created_by")),
}  # fmt: skip
"""Fields that the proto says are ignored in writes: they have their effect in answers."""
WRITES = {
    "PutUnits",
    "DeleteUnits",
    "LinkUnits",
    "UnlinkUnits",
    "ReportOutcome",
    "CreatePolicy",
    "DeletePolicy",
    "RecalibratePredictor",
    "RollBackPredictor",
}
STARTS = {
    # what else the plainest request needs for the field to be tried alone
    "ToolCall": _unit(kind=1, tool_call=core_pb2.ToolCall(call_id="c", name="n")),
    "ContextUnit.tool_call": _unit(kind=1),
}


def _fields_of_requests() -> list[str]:
    found: dict[str, None] = {}

    def visit(descriptor: Any) -> None:
        for field in descriptor.fields:
            name = f"{descriptor.name}.{field.name}"
            if name in found:
                continue
            found[name] = None
            inner = field.message_type
            if inner is not None and inner.file.package == "graphsvc.v1" and not inner.GetOptions().map_entry:
                visit(field.message_type)

    for module in (context_pb, retrieval_pb, registry_pb, predictor_pb):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                visit(method.input_type)
    return sorted(set(found) - IGNORED_IN_WRITES)


def test_KF_every_parameter_has_a_case() -> None:
    assert set(_fields_of_requests()) == set(EFFECTS)


async def _outcome(world: World, name: str, request: Any) -> object:
    """What a request does: how it is refused, what a write leaves in the graph, or what a read answers."""
    if name == "Retrieve":  # what an earlier retrieval delivered would make this one different
        await world.graph_driver.execute_query(
            "MATCH (r:Retrieval {tenant_id: $tenant}) WHERE r.retrieval_id <> $kept DETACH DELETE r",
            tenant=world.tenant,
            kept=world.retrieval_id,
        )
    answer: Any = await world.stubs.call(name, request, world.key)
    if isinstance(answer, Refusal):
        return (answer.code, answer.reason)
    if name in WRITES:
        return await _stored(world)
    step = None
    if name == "Retrieve":
        explain = retrieval_pb.ExplainRetrievalRequest(session_id=request.session_id, retrieval_id=answer.retrieval_id)
        step = (await world.stubs.method("ExplainRetrieval")(explain, metadata=_authorization(world))).task_step  # type: ignore[attr-defined]
    for volatile in ("revision", "retrieval_id", "duration_ms"):
        if volatile in answer.DESCRIPTOR.fields_by_name:
            answer.ClearField(volatile)
    return (str(answer), step)


def _authorization(world: World) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {world.key}"),)


async def _stored(world: World) -> str:
    """Everything in the tenant that a write may change, named without ids."""
    (row,), _, _ = await world.graph_driver.execute_query(
        """
        RETURN
          COLLECT { MATCH (u:ContextUnit {tenant_id: $tenant})
            OPTIONAL MATCH (u)-[e:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]->(t:ContextUnit)
            WITH u, e, t ORDER BY type(e), e.role, t.unit_key
            WITH u, collect([type(e), e.role, e.weight, t.unit_key]) AS edges ORDER BY u.unit_key
            RETURN [u.unit_key, u.agent_id, u.session_id, u.kind, u.content_sha256, u.task_id, toString(u.task_step),
              u.epistemic_status, u.path, u.model, toString(u.pinned), u.tool_call_id, u.tool_name,
              u.tool_arguments_json, toString(u.vendor_state IS NULL),
              CASE WHEN u.timestamp < datetime('2026-02-01') THEN toString(u.timestamp) END, u.provenance, edges,
              COLLECT { MATCH (u)-[:HAS_EMBEDDING]->(v) RETURN v.embedding[0] }] } AS units,
          COLLECT { MATCH (p:Policy {tenant_id: $tenant})
            WITH [p.owner_agent_id, p.owner_session_id, p.grantee_agent_id, p.grantee_session_id, p.kinds,
              toString(p.expires_time)] AS policy ORDER BY toString(policy[2]), toString(policy[0])
            RETURN policy } AS policies,
          COLLECT { MATCH (p:Predictor {tenant_id: $tenant}) WITH p ORDER BY p.version
            RETURN [p.version, EXISTS { (:Tenant {tenant_id: $tenant})-[:USES]->(p) }] } AS predictors,
          COLLECT { MATCH (:Retrieval {tenant_id: $tenant})-[o:REFERENCED|IGNORED]->(u)
            WITH [type(o), u.unit_key] + o.methods AS verdict ORDER BY u.unit_key RETURN verdict } AS verdicts
        """,
        tenant=world.tenant,
    )
    policies = sorted(map(str, row["policies"]))
    return str(row["units"]) + str(policies) + str(row["predictors"]) + str(row["verdicts"])


def _message_of(field: str) -> str:
    owner = field.split(".", maxsplit=1)[0]
    return INSIDE.get(owner, owner)


def _started(world: World, field: str) -> tuple[str, Any]:
    """RPC and request before the field is changed."""
    name, request = _base(world, _message_of(field))
    start = STARTS.get(field) or STARTS.get(field.split(".", maxsplit=1)[0])
    if start is not None:
        start(world, request)
    return name, request


@pytest.fixture(scope="session")
def plain_outcomes() -> dict[str, object]:
    """What writes do before a field is changed, by request; worlds are the same, so it is found once."""
    return {}


@pytest.mark.parametrize("field", sorted(EFFECTS))
async def test_KF_every_parameter_has_an_effect(
    service: Service,
    stubs: Stubs,
    graph_driver: neo4j.AsyncDriver,
    world_for_reads: World,
    plain_outcomes: dict[str, object],
    field: str,
) -> None:
    name, request = _started(world_for_reads, field)
    if name in WRITES:
        owner = field.split(".", maxsplit=1)[0]
        start = f"{name} {next((one for one in (field, owner) if one in STARTS), '')}"
        if start not in plain_outcomes:
            plain = await _make_world(service, stubs, graph_driver)
            plain_outcomes[start] = await _outcome(plain, *_started(plain, field))
        before = plain_outcomes[start]
        world = await _make_world(service, stubs, graph_driver)
    else:
        world = world_for_reads
        before = await _outcome(world, name, request)
        assert before == await _outcome(world, name, request), "the same request has the same outcome"
    assert not isinstance(before, tuple) or before[0] != "INVALID_ARGUMENT"
    name, request = _started(world, field)
    EFFECTS[field](world, request)

    assert await _outcome(world, name, request) != before
