"""Neighbours, companions and scores in Neo4j are exactly those of plain Python, on random graphs."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta

import neo4j
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsvc.domain.units import EdgeType
from graphsvc.graph import context_graph
from graphsvc.ports import DescriptionQuery, NeighbourQuery, RecentQuery
from graphsvc.ranking.lexical import term_frequencies, term_statistics
from tests.conftest import Neo4jEndpoints
from tests.integration.test_expand_oracle import AGENTS, KINDS, OPTIONS, SESSIONS, graphs
from tests.support import graph_oracle
from tests.support.graph_connection import GraphConnection, connected_graph, principal
from tests.support.graph_oracle import EPOCH, OracleGraph

TEXTS = ("", "apple", "apple pear", "a pear and a pear tree")
STATISTICS = term_statistics("apple tree", [term_frequencies(text) for text in TEXTS])


@pytest.fixture(scope="module")
async def connection(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphConnection]:
    async with connected_graph(neo4j_endpoints) as connected:
        yield connected


@pytest.fixture(scope="module", autouse=True)
def few_turns() -> Iterator[None]:
    """A limit that small graphs reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_graph, "TURN_LIMIT", 3)
        patch.setattr(graph_oracle, "TURN_LIMIT", 3)
        yield


@st.composite
def sessions(draw: st.DrawFn) -> OracleGraph:
    """A graph whose units have steps, texts and tool calls; some are chunks with a header."""
    graph = draw(graphs())
    for unit in list(graph.units.values()):
        graph.add(
            replace(
                unit,
                task_step=draw(st.integers(0, 6)),
                tool_call_id=draw(st.sampled_from(("", "", "c1", "c2"))),
                text=draw(st.sampled_from(TEXTS)),
            )
        )
    graph.edges = [replace(edge, weight=draw(st.sampled_from((0.0, 0.25, 1.0)))) for edge in graph.edges]
    ids = sorted(graph.units)
    # So that no chain of headers and calls is longer than the rounds that are read.
    chunks = [unit_id for unit_id in ids[1::2] if not graph.units[unit_id].tool_call_id]
    for chunk in chunks:
        for header in draw(st.lists(st.sampled_from(ids[::2]), max_size=2, unique=True)):
            graph.link(chunk, header, EdgeType.PROVENANCE, role="header")
    return graph


@st.composite
def neighbour_queries(draw: st.DrawFn, graph: OracleGraph) -> NeighbourQuery:
    ids = st.sampled_from((*sorted(graph.units), "absent"))
    seeds = tuple(draw(st.lists(ids, max_size=5)))
    return NeighbourQuery(
        seed_ids=seeds,
        candidate_ids=(*seeds, *draw(st.lists(ids, max_size=3))) if draw(st.booleans()) else (),
        edge_limit=draw(st.sampled_from((1, 2, 4, 200))),
        kinds=draw(st.frozensets(st.sampled_from(KINDS), max_size=2)),
        fingerprint=draw(st.sampled_from(("", "f"))),
        as_of=draw(st.sampled_from((None, None, EPOCH + timedelta(days=1)))),
    )


@given(data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
async def test_neighbours_and_descriptions_equal_plain_python(
    data: st.DataObject, connection: GraphConnection, graph_driver: neo4j.AsyncDriver
) -> None:
    graph = data.draw(sessions())
    # A shrunk example is run again: each run writes a tenant of its own.
    graph.move_to(f"t-{uuid.uuid4().hex[:16]}")
    await graph.write(graph_driver)
    for _ in range(4):
        asker = principal(
            graph.tenant_id, data.draw(st.sampled_from(AGENTS)), data.draw(st.sampled_from((*SESSIONS, "")))
        )
        query = data.draw(neighbour_queries(graph))
        expected = (await graph.neighbours(asker, query, OPTIONS)).result
        answer = (await connection.graph.neighbours(asker, query, OPTIONS)).result
        assert answer == expected, (graph, asker, query)

        candidate_ids = tuple(data.draw(st.lists(st.sampled_from((*sorted(graph.units), "absent")), max_size=6)))
        description = DescriptionQuery(candidate_ids, STATISTICS, None, query.fingerprint, query.as_of)
        described = (await connection.graph.describe(asker, description, OPTIONS)).result
        assert described == (await graph.describe(asker, description, OPTIONS)).result, (graph, asker, description)

        recent = RecentQuery(data.draw(st.integers(1, 5)), query.fingerprint, query.as_of)
        newest = (await connection.graph.list_recent(asker, recent, OPTIONS)).result
        assert newest == (await graph.list_recent(asker, recent, OPTIONS)).result, (graph, asker, recent)
