"""Neo4j's traversal answers exactly as a breadth-first search in plain Python, on random graphs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

import neo4j
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.ports import ReadOptions, Traversal
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import GraphConnection, connected_graph, principal
from tests.support.graph_oracle import EPOCH, OracleGraph, OracleUnit

AGENTS = ("ann", "bob")
SESSIONS = ("s1", "s2")
KINDS = (ContextUnitKind.DECISION, ContextUnitKind.OBSERVATION)
OPTIONS = ReadOptions(timeout_ms=20_000)


@pytest.fixture(scope="module")
async def connection(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphConnection]:
    async with connected_graph(neo4j_endpoints) as connected:
        yield connected


@st.composite
def graphs(draw: st.DrawFn) -> OracleGraph:
    graph = OracleGraph("t")
    size = draw(st.integers(2, 14))
    ids = [f"u{n:02d}" for n in range(size)]
    for unit_id in ids:
        graph.add(
            OracleUnit(
                unit_id,
                agent_id=draw(st.sampled_from(AGENTS)),
                session_id=draw(st.sampled_from(SESSIONS)),
                kind=draw(st.sampled_from(KINDS)),
                timestamp=EPOCH + timedelta(days=draw(st.integers(0, 3))),
            )
        )
    for _ in range(draw(st.integers(0, 3 * size))):
        source, target = draw(st.sampled_from(ids)), draw(st.sampled_from(ids))
        if source != target:
            edge_type = draw(st.sampled_from(EdgeType))
            if edge_type is EdgeType.SUPERSESSION and source < target:
                source, target = target, source
            graph.link(source, target, edge_type)
    for number in range(draw(st.integers(0, 2))):
        graph.tasks[f"task{number}"] = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
    for _ in range(draw(st.integers(0, 3))):
        graph.share(
            owner_agent_id=draw(st.sampled_from(("", *AGENTS))),
            owner_session_id=draw(st.sampled_from(("", *SESSIONS))),
            grantee_agent_id=draw(st.sampled_from(("", *AGENTS))),
            grantee_session_id=draw(st.sampled_from(("", *SESSIONS))),
            kinds=draw(st.sets(st.sampled_from(KINDS), min_size=1)),
            expires_time=draw(st.sampled_from((None, None, EPOCH, graph.clock.now() + timedelta(days=1)))),
        )
    graph.rejects["f"] = draw(st.sets(st.sampled_from(ids), max_size=2))
    return graph


@st.composite
def traversals(draw: st.DrawFn, graph: OracleGraph) -> Traversal:
    ids = sorted(graph.units)
    return Traversal(
        task_ids=tuple(draw(st.lists(st.sampled_from(("task0", "task1", "absent")), max_size=2))),
        unit_ids=tuple(draw(st.lists(st.sampled_from((*ids, "absent")), max_size=3))),
        directions=draw(st.dictionaries(st.sampled_from(EdgeType), st.sampled_from(Direction), max_size=4)),
        wanted=draw(st.frozensets(st.sampled_from(EdgeType), max_size=3)),
        max_hops=draw(st.integers(1, 4)),
        limit=draw(st.sampled_from((1, 3, 200))),
        candidate_ids=tuple(draw(st.lists(st.sampled_from((*ids, "absent")), max_size=3))),
        fingerprint=draw(st.sampled_from(("", "f"))),
        as_of=draw(st.sampled_from((None, None, EPOCH + timedelta(days=1)))),
        hub_degree_cap=draw(st.sampled_from((2, 4, 500))),
    )


@given(data=st.data())
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
async def test_expand_equals_breadth_first_search(
    data: st.DataObject, connection: GraphConnection, graph_driver: neo4j.AsyncDriver
) -> None:
    graph = data.draw(graphs())
    # A shrunk example is run again: each run writes a tenant of its own.
    graph.move_to(f"t-{uuid.uuid4().hex[:16]}")
    await graph.write(graph_driver)
    for _ in range(5):
        asker = principal(
            graph.tenant_id, data.draw(st.sampled_from(AGENTS)), data.draw(st.sampled_from((*SESSIONS, "")))
        )
        traversal = data.draw(traversals(graph))
        expected = (await graph.expand(asker, traversal, OPTIONS)).result
        answer = (await connection.graph.expand(asker, traversal, OPTIONS)).result
        assert answer == expected, (graph, asker, traversal)


async def expand_both(
    graph: OracleGraph, connection: GraphConnection, graph_driver: neo4j.AsyncDriver, asker: Principal, how: Traversal
) -> list[tuple[str, int]]:
    """Both answers, compared; ids with their distance."""
    await graph.write(graph_driver)
    expected = (await graph.expand(asker, how, OPTIONS)).result
    answer = (await connection.graph.expand(asker, how, OPTIONS)).result
    assert answer == expected
    return [(hit.entry.unit_id, hit.path.hop_count) for hit in answer.hits]


async def test_invisible_edges_make_no_hub(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"), OracleUnit("b"), OracleUnit("c"))
    graph.link("a", "b")
    graph.link("b", "c")
    for n in range(10):
        graph.add(OracleUnit(f"x{n}", agent_id="bob"))
        graph.link(f"x{n}", "b")
    how = Traversal(unit_ids=("a",), hub_degree_cap=3)
    assert await expand_both(graph, connection, graph_driver, principal(tenant_id), how) == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]


async def test_hub_is_reached_and_not_passed_through(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"), OracleUnit("hub"), OracleUnit("c"))
    graph.link("a", "hub")
    graph.link("hub", "c", EdgeType.CAUSATION)
    how = Traversal(unit_ids=("a",), hub_degree_cap=2)
    assert await expand_both(graph, connection, graph_driver, principal(tenant_id), how) == [("a", 0), ("hub", 1)]


async def test_scan_limit_makes_the_answer_partial(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"))
    for n in range(300):
        # Half of them are invisible: they neither fill the limit nor raise the flag.
        graph.add(OracleUnit(f"x{n:03d}", agent_id=("ann", "bob")[n % 2]))
        graph.link("a", f"x{n:03d}")
    await graph.write(graph_driver)
    ann = principal(tenant_id)
    for limit, partial in ((150, False), (149, True), (100, True)):
        answer = await connection.graph.expand(ann, Traversal(unit_ids=("a",), scan_limit=limit), OPTIONS)
        assert answer.result.partial is partial
        assert len(answer.result.hits) >= min(limit, 150)


async def test_another_tenant_with_the_same_ids_changes_nothing(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    other = OracleGraph(tenant_id + "-other")
    other.add(OracleUnit("a"), OracleUnit("z"))
    other.link("a", "z")
    await other.write(graph_driver)
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"), OracleUnit("b"))
    graph.link("a", "b")
    how = Traversal(unit_ids=("a", "z"), candidate_ids=("z",))
    assert await expand_both(graph, connection, graph_driver, principal(tenant_id), how) == [("a", 0), ("b", 1)]
