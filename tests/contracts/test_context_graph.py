"""The port ContextGraph: the same answers from the oracle in memory and from Neo4j."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import neo4j
import numpy as np
import pytest

from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.ports import ContextGraph, ReadOptions, TopicQuery, Traversal
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import DIMENSIONS, GraphConnection, connected_graph, principal
from tests.support.graph_oracle import EPOCH, OracleGraph, OracleUnit

OPTIONS = ReadOptions(timeout_ms=30_000)
Serve = Callable[[OracleGraph], Awaitable[ContextGraph]]


@pytest.fixture(scope="module")
async def connection(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphConnection]:
    async with connected_graph(neo4j_endpoints) as connected:
        yield connected


@pytest.fixture(params=["memory", "neo4j"])
def serve(request: pytest.FixtureRequest, connection: GraphConnection, graph_driver: neo4j.AsyncDriver) -> Serve:
    """Puts a graph behind the port."""

    async def in_memory(graph: OracleGraph) -> ContextGraph:
        return graph

    async def in_neo4j(graph: OracleGraph) -> ContextGraph:
        await graph.write(graph_driver)
        return connection.graph

    return in_memory if request.param == "memory" else in_neo4j


async def test_distance_path_and_match(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name) for name in "abcd"))
    graph.tasks["T"] = ["a"]
    graph.link("a", "b", EdgeType.CAUSATION)
    graph.link("a", "c", EdgeType.PROVENANCE)
    graph.link("b", "d", EdgeType.PROVENANCE)
    graph.link("c", "d", EdgeType.PROVENANCE)
    asked = Traversal(task_ids=("T", "absent"), wanted=frozenset({EdgeType.PROVENANCE}))
    answer = (await (await serve(graph)).expand(principal(tenant_id), asked, OPTIONS)).result
    assert answer.anchor_ids == ("task:T",)
    assert [(h.entry.unit_id, h.path.hop_count, h.path.match_count) for h in answer.hits] == [
        ("a", 1, 0),
        ("c", 2, 1),
        ("b", 2, 0),
        ("d", 3, 2),
    ]
    best = answer.hits[-1].path
    assert best.unit_ids == ("task:T", "a", "c", "d")
    assert best.edge_types == (EdgeType.DEPENDENCY, EdgeType.PROVENANCE, EdgeType.PROVENANCE)
    assert best.edge_type_match == pytest.approx(2 / 3)
    assert not answer.partial


async def test_visible_unit_anchors_are_hits_at_no_hop(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"), OracleUnit("b", agent_id="bob"))
    asked = Traversal(unit_ids=("a", "b", "absent"))
    answer = (await (await serve(graph)).expand(principal(tenant_id), asked, OPTIONS)).result
    assert [(h.entry.unit_id, h.path.unit_ids, h.path.edge_type_match) for h in answer.hits] == [("a", ("a",), 1.0)]
    assert answer.anchor_ids == ("a",)


async def test_directions(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name) for name in "abcd"))
    graph.link("a", "b")
    graph.link("c", "a")
    graph.link("a", "d", EdgeType.CAUSATION)
    served = await serve(graph)
    for directions, reached in (
        ({}, {"a", "b", "c", "d"}),
        ({EdgeType.DEPENDENCY: Direction.BOTH}, {"a", "b", "c"}),
        ({EdgeType.DEPENDENCY: Direction.OUTGOING}, {"a", "b"}),
        ({EdgeType.DEPENDENCY: Direction.INCOMING, EdgeType.CAUSATION: Direction.OUTGOING}, {"a", "c", "d"}),
    ):
        asked = Traversal(unit_ids=("a",), directions=directions)
        answer = (await served.expand(principal(tenant_id), asked, OPTIONS)).result
        assert {hit.entry.unit_id for hit in answer.hits} == reached


async def test_a_path_through_what_is_invisible_does_not_exist(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a"), OracleUnit("b", agent_id="bob"), OracleUnit("c"))
    graph.tasks["T"] = ["b"]
    graph.link("a", "b")
    graph.link("b", "c")
    served = await serve(graph)
    asked = Traversal(unit_ids=("a",), task_ids=("T",), candidate_ids=("b", "c"))
    answer = (await served.expand(principal(tenant_id), asked, OPTIONS)).result
    assert [hit.entry.unit_id for hit in answer.hits] == ["a"]
    assert answer.anchor_ids == ("a",)
    for stranger in (principal(tenant_id, session_id=""), principal(""), principal(tenant_id, agent_id="zoe")):
        answer = (await served.expand(stranger, asked, OPTIONS)).result
        assert (answer.hits, answer.anchor_ids, answer.partial, answer.blocked_count) == ((), (), False, 0)


async def test_candidates_beyond_the_limit_are_reported_when_reached(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name) for name in "abcde"))
    for source, target in ("ab", "bc", "cd", "de"):
        graph.link(source, target)
    served = await serve(graph)
    near = Traversal(unit_ids=("a",), limit=1, max_hops=4)
    assert [h.entry.unit_id for h in (await served.expand(principal(tenant_id), near, OPTIONS)).result.hits] == ["a"]
    far = Traversal(unit_ids=("a",), limit=1, max_hops=4, candidate_ids=("d",))
    assert [h.entry.unit_id for h in (await served.expand(principal(tenant_id), far, OPTIONS)).result.hits] == [
        "a",
        "d",
    ]


async def test_superseded_and_rejected(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(
        OracleUnit("a"), OracleUnit("old"), OracleUnit("new", timestamp=EPOCH + timedelta(days=9)), OracleUnit("x")
    )
    graph.link("a", "old")
    graph.link("new", "old", EdgeType.SUPERSESSION)
    graph.link("old", "x")
    graph.rejects["f"] = {"x"}
    served = await serve(graph)
    asked = Traversal(unit_ids=("a",), fingerprint="f")
    answer = (await served.expand(principal(tenant_id), asked, OPTIONS)).result
    assert [(h.entry.unit_id, h.superseded_by) for h in answer.hits] == [("a", ""), ("old", "new"), ("new", "")]
    assert answer.blocked_count == 1
    then = Traversal(unit_ids=("a",), as_of=EPOCH)
    answer = (await served.expand(principal(tenant_id), then, OPTIONS)).result
    assert [(h.entry.unit_id, h.superseded_by) for h in answer.hits] == [("a", ""), ("old", ""), ("x", "")]


async def test_topic_search(serve: Serve, tenant_id: str) -> None:
    direction = np.eye(DIMENSIONS, dtype=np.float32)
    graph = OracleGraph(tenant_id)
    graph.add(
        OracleUnit("text", text="apple pie"),
        OracleUnit("vector", text="pear", embedding=tuple(direction[0].tolist())),
        OracleUnit("both", text="apple", embedding=tuple(direction[0].tolist()), kind=ContextUnitKind.DECISION),
        OracleUnit("theirs", agent_id="bob", text="apple", embedding=tuple(direction[0].tolist())),
    )
    graph.rejects["f"] = {"text"}
    served = await serve(graph)
    ann = principal(tenant_id)

    answer = (await served.search(ann, TopicQuery("apple", direction[0]), OPTIONS)).result
    assert [hit.entry.unit_id for hit in answer.hits] == ["both", "text", "vector"]
    scores = {hit.entry.unit_id: (hit.full_text_score is not None, hit.vector_score) for hit in answer.hits}
    assert scores["text"] == (True, None)
    assert scores["vector"] == (False, pytest.approx(1.0, abs=1e-4))
    assert scores["both"] == (True, pytest.approx(1.0, abs=1e-4))

    answer = (await served.search(ann, TopicQuery("apple", None, fingerprint="f"), OPTIONS)).result
    assert ([hit.entry.unit_id for hit in answer.hits], answer.blocked_count) == (["both"], 1)
    decisions = TopicQuery("apple", direction[0], kinds=frozenset({ContextUnitKind.DECISION}))
    assert [h.entry.unit_id for h in (await served.search(ann, decisions, OPTIONS)).result.hits] == ["both"]

    nothing = (await served.search(ann, TopicQuery("zebra", None), OPTIONS)).result
    assert (nothing.hits, nothing.usable_terms, nothing.visible_scopes) == ((), True, 1)
    silent = (await served.search(ann, TopicQuery("?!", None), OPTIONS)).result
    assert (silent.hits, silent.usable_terms) == ((), False)
    stranger = (await served.search(principal(tenant_id, "zoe"), TopicQuery("apple", direction[0]), OPTIONS)).result
    assert (stranger.hits, stranger.visible_scopes) == ((), 0)


async def test_list_recent(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    for n in range(4):
        graph.add(OracleUnit(f"u{n}", created_time=EPOCH + timedelta(seconds=n // 2)))
    graph.add(OracleUnit("other", session_id="s2", created_time=EPOCH + timedelta(days=1)))
    graph.share("ann", "s2")
    served = await serve(graph)
    recent = (await served.list_recent(principal(tenant_id), 3, OPTIONS)).result
    assert [entry.unit_id for entry in recent] == ["u2", "u3", "u0"]
    assert (await served.list_recent(principal(tenant_id, session_id=""), 3, OPTIONS)).result == ()
