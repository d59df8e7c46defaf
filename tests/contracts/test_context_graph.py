"""The port ContextGraph: the same answers from the oracle in memory and from Neo4j."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import neo4j
import numpy as np
import pytest

from graphsvc.domain.candidates import NO_TERMS, Neighbourhood, SeedLink
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.ports import (
    ContextGraph,
    DescriptionQuery,
    Descriptions,
    NeighbourQuery,
    Neighbours,
    ReadOptions,
    RecentQuery,
    TopicQuery,
    Traversal,
)
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import DIMENSIONS, GraphConnection, connected_graph, principal
from tests.support.graph_oracle import EPOCH, OracleGraph, OracleUnit

OPTIONS = ReadOptions(timeout_ms=30_000)
VECTOR_INDEX_ERROR = 1e-6
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


async def test_topic_search_samples_the_best_vectors(serve: Serve, tenant_id: str) -> None:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(60, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    graph = OracleGraph(tenant_id)
    for n, vector in enumerate(vectors):
        # The best of all are somebody else's, and rejected.
        agent_id = "bob" if n == 0 else "ann"
        graph.add(OracleUnit(f"u{n:02d}", agent_id=agent_id, text="apple", embedding=tuple(vector.tolist())))
    graph.rejects["f"] = {"u01"}
    served = await serve(graph)
    asked = (vectors[0] + vectors[1] + vectors[2] / 2) / np.linalg.norm(vectors[0] + vectors[1] + vectors[2] / 2)
    answer = (await served.search(principal(tenant_id), TopicQuery("apple", asked, fingerprint="f"), OPTIONS)).result
    expected = sorted(range(2, 60), key=lambda n: -float(vectors[n] @ asked))[:50]
    assert len(answer.sample) == 50
    assert {tuple(vector.tolist()) for vector in answer.sample} == {tuple(vectors[n].tolist()) for n in expected}
    without = (await served.search(principal(tenant_id), TopicQuery("apple", None), OPTIONS)).result
    assert (len(without.hits), without.sample) == (59, ())


async def test_list_recent(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    for n in range(4):
        graph.add(OracleUnit(f"u{n}", created_time=EPOCH + timedelta(seconds=n // 2)))
    graph.add(OracleUnit("other", session_id="s2", created_time=EPOCH + timedelta(days=1)))
    graph.share("ann", "s2")
    served = await serve(graph)
    recent = (await served.list_recent(principal(tenant_id), RecentQuery(3), OPTIONS)).result
    assert [entry.unit_id for entry in recent] == ["u2", "u3", "u0"]
    assert (await served.list_recent(principal(tenant_id, session_id=""), RecentQuery(3), OPTIONS)).result == ()


async def test_list_recent_leaves_out_superseded_and_rejected(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    for n, name in enumerate(("first", "old", "x", "new", "bobs")):
        day = EPOCH + timedelta(days=n)
        graph.add(OracleUnit(name, "bob" if name == "bobs" else "ann", created_time=day, timestamp=day))
    graph.link("new", "old", EdgeType.SUPERSESSION)
    graph.link("bobs", "first", EdgeType.SUPERSESSION)
    graph.rejects["f"] = {"x"}
    served = await serve(graph)

    async def recent(limit: int, fingerprint: str = "", day: int | None = None) -> list[str]:
        as_of = None if day is None else EPOCH + timedelta(days=day)
        query = RecentQuery(limit, fingerprint, as_of)
        return [entry.unit_id for entry in (await served.list_recent(principal(tenant_id), query, OPTIONS)).result]

    assert await recent(9) == ["new", "x", "first"]
    assert await recent(9, "f") == ["new", "first"]
    assert await recent(2, "f") == ["new"]
    assert await recent(9, "other") == ["new", "x", "first"]
    assert await recent(9, day=2) == ["x", "old", "first"]
    assert await recent(1, day=2) == ["x"]


# Neighbours


async def near(
    served: ContextGraph,
    tenant_id: str,
    *seed_ids: str,
    candidate_ids: tuple[str, ...] | None = None,
    agent_id: str = "ann",
    session_id: str = "s1",
    **fields: object,
) -> Neighbours:
    """Neighbours of the seeds, which are known."""
    query = NeighbourQuery(seed_ids, seed_ids if candidate_ids is None else candidate_ids, **fields)  # type: ignore[arg-type]
    return (await served.neighbours(principal(tenant_id, agent_id, session_id), query, OPTIONS)).result


def ids(found: Neighbours | Descriptions) -> list[str]:
    return [unit.entry.unit_id for unit in found.units]


async def test_links_are_seen_from_the_seed(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name) for name in ("s", "t", "a", "b", "c", "d")))
    graph.link("s", "a", weight=0.25)
    graph.link("s", "a", role="imports", weight=0.75)
    graph.link("a", "s", EdgeType.CAUSATION, weight=0.5)
    graph.link("b", "t", EdgeType.PROVENANCE)
    graph.link("b", "a")
    graph.link("s", "t")
    graph.link("s", "c", EdgeType.SUPERSESSION)
    graph.link("a", "d")
    served = await serve(graph)
    found = await near(served, tenant_id, "t", "s", "absent", "s")
    assert ids(found) == ["a", "b"]
    assert found.neighbourhoods == {
        "a": Neighbourhood(
            links=(
                SeedLink("s", EdgeType.CAUSATION, Direction.INCOMING, 0.5),
                SeedLink("s", EdgeType.DEPENDENCY, Direction.OUTGOING, 0.75),
            ),
            in_degree=3,
        ),
        "b": Neighbourhood(links=(SeedLink("t", EdgeType.PROVENANCE, Direction.INCOMING, 1.0),), in_degree=0),
        # Seeds may be neighbours of one another, and are known already.
        "s": Neighbourhood(links=(SeedLink("t", EdgeType.DEPENDENCY, Direction.INCOMING, 1.0),), in_degree=1),
        "t": Neighbourhood(links=(SeedLink("s", EdgeType.DEPENDENCY, Direction.OUTGOING, 1.0),), in_degree=2),
    }
    assert ids(await near(served, tenant_id, "s", "t", candidate_ids=("a",))) == ["b", "s", "t"]
    assert await near(served, tenant_id) == await near(served, tenant_id, "absent") == Neighbours((), {})


async def test_what_is_invisible_is_no_neighbour_and_moves_none(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("s", task_step=5), OracleUnit("a"), OracleUnit("mine", task_step=6))
    graph.add(*(OracleUnit(f"bob{n}", "bob", task_step=5 + n) for n in range(5)))
    graph.add(OracleUnit("other", session_id="s2", task_step=6))
    graph.link("s", "a")
    served_alone = NeighbourQuery(("s", "bob1", "other"), ("s",), edge_limit=1, fingerprint="f")
    graph.rejects["f"] = {"bob1"}
    alone = (await graph.neighbours(principal(tenant_id), served_alone, OPTIONS)).result
    for n in range(5):
        graph.link(f"bob{n}", "s")
        graph.link(f"bob{n}", "a", EdgeType.CAUSATION)
        graph.link("a", f"bob{n}", EdgeType.PROVENANCE)
        graph.link("other", "s")
        graph.link(f"bob{n}", "mine", EdgeType.SUPERSESSION)
    served = await serve(graph)
    found = (await served.neighbours(principal(tenant_id), served_alone, OPTIONS)).result
    assert found == alone
    assert ids(found) == ["a", "mine"]
    assert found.blocked_count == 0
    assert found.neighbourhoods["a"].in_degree == 1
    assert await near(served, tenant_id, "bob1", "other") == Neighbours((), {})
    for stranger in (principal(tenant_id, session_id=""), principal(""), principal(tenant_id, "zoe")):
        assert (await served.neighbours(stranger, served_alone, OPTIONS)).result == Neighbours((), {})


async def test_shared_kinds_are_seen_as_far_as_the_policy_goes(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("s", "bob", kind=ContextUnitKind.DECISION, task_step=5))
    graph.add(*(OracleUnit(f"o{n:02d}", "bob", task_step=5 + n % 3) for n in range(30)))
    graph.add(*(OracleUnit(f"d{n}", "bob", kind=ContextUnitKind.DECISION, task_step=4 + n) for n in range(3)))
    for n in range(30):
        graph.link(f"o{n:02d}", "s")
    graph.link("d2", "s")
    graph.link("o00", "d2")
    graph.share("bob", grantee_agent_id="ann", kinds=[ContextUnitKind.DECISION])
    served = await serve(graph)
    found = await near(served, tenant_id, "s", edge_limit=1)
    assert found.neighbourhoods == {
        "d0": Neighbourhood(turns=(("s", -1),)),
        "d2": Neighbourhood((SeedLink("s", EdgeType.DEPENDENCY, Direction.INCOMING, 1.0),), (("s", 1),), in_degree=0),
    }
    assert ids(found) == ["d0", "d2"]
    theirs = await near(served, tenant_id, "s", agent_id="bob", edge_limit=31)
    assert len(theirs.units) == 31
    assert theirs.neighbourhoods["d2"].turns == ()
    assert theirs.neighbourhoods["d2"].in_degree == 1


async def test_a_hub_links_nothing_and_may_be_linked(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("hub"), OracleUnit("s"), *(OracleUnit(f"u{n}") for n in range(4)))
    graph.add(*(OracleUnit(f"bob{n:02d}", "bob") for n in range(20)))
    graph.tasks["T"] = ["hub"]
    for n in range(3):
        graph.link(f"u{n}", "hub", (EdgeType.CAUSATION, EdgeType.DEPENDENCY, EdgeType.PROVENANCE)[n])
        graph.link(f"u{n}", "s", EdgeType.SUPERSESSION)
    for n in range(20):
        graph.link(f"bob{n:02d}", "hub")
    # The fourth visible edge, beside another.
    graph.link("u2", "hub", EdgeType.PROVENANCE, role="again")
    graph.link("s", "u3")
    graph.link("s", "u2")
    served = await serve(graph)
    assert ids(await near(served, tenant_id, "hub", edge_limit=4)) == ["u0", "u1", "u2"]
    found = await near(served, tenant_id, "hub", "u2", edge_limit=3)
    assert {u: [link.seed_id for link in n.links] for u, n in found.neighbourhoods.items()} == {
        "hub": ["u2"],
        "s": ["u2"],
    }
    assert found.neighbourhoods["hub"].in_degree == 3
    assert found.neighbourhoods["s"].in_degree == 0


async def test_turns_are_two_steps_of_the_same_agent_and_session(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(f"u{n}", task_step=n) for n in range(7)))
    graph.add(OracleUnit("u3b", task_step=3), OracleUnit("s2", session_id="s2", task_step=3))
    graph.add(OracleUnit("bob", "bob", task_step=4))
    graph.share()
    served = await serve(graph)
    found = await near(served, tenant_id, "u3", "u6", "s2")
    assert {unit_id: n.turns for unit_id, n in found.neighbourhoods.items()} == {
        "u1": (("u3", -2),),
        "u2": (("u3", -1),),
        "u4": (("u3", 1), ("u6", -2)),
        "u5": (("u3", 2), ("u6", -1)),
    }
    assert ids(found) == ["u1", "u2", "u4", "u5"]
    # Nothing stands before the first step.
    assert set((await near(served, tenant_id, "u0")).neighbourhoods) == {"u1", "u2"}


@pytest.mark.parametrize("same_step", [False, True])
async def test_steps_that_hold_many_units_are_no_turns(serve: Serve, tenant_id: str, same_step: bool) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("s", task_step=10), OracleUnit("a", task_step=11))
    graph.add(*(OracleUnit(f"u{n:02d}", task_step=10 if same_step else 8 + n % 2) for n in range(11)))
    graph.add(*(OracleUnit(f"far{n}", task_step=13) for n in range(5)))
    graph.add(*(OracleUnit(f"bob{n}", "bob", task_step=10) for n in range(5)))
    full = OracleGraph(tenant_id + "-full", dict(graph.units))
    full.add(OracleUnit("one-more", task_step=12))
    served, served_full = await serve(graph), await serve(full)
    assert (await near(served, tenant_id, "s")).neighbourhoods["a"].turns == (("s", 1),)
    assert (await near(served_full, full.tenant_id, "s")).neighbourhoods == {}


async def test_neighbours_as_of_a_time(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    for name, day, step in (("s", 1, 5), ("a", 1, 6), ("b", 2, 7), ("new", 2, 90), ("newer", 2, 90), ("other", 2, 90)):
        graph.add(OracleUnit(name, timestamp=EPOCH + timedelta(days=day), task_step=step))
    graph.add(OracleUnit("hers", session_id="s2"), OracleUnit("bobs", "bob"))
    graph.link("s", "a")
    graph.link("b", "a")
    graph.link("other", "s")
    for name in ("newer", "new", "hers", "bobs"):
        graph.link(name, "a", EdgeType.SUPERSESSION)
    served = await serve(graph)
    then = await near(served, tenant_id, "s", "other", edge_limit=1, as_of=EPOCH + timedelta(days=1))
    link = SeedLink("s", EdgeType.DEPENDENCY, Direction.OUTGOING, 1.0)
    assert then.neighbourhoods == {"a": Neighbourhood((link,), (("s", 1),), in_degree=1)}
    assert [(unit.entry.unit_id, unit.superseded_by) for unit in then.units] == [("a", "")]
    then = await near(served, tenant_id, "s", edge_limit=2, as_of=EPOCH + timedelta(days=1))
    assert then.neighbourhoods["a"].in_degree == 1
    assert (await near(served, tenant_id, "s", as_of=EPOCH)).neighbourhoods == {}
    now = await near(served, tenant_id, "s")
    assert [(unit.entry.unit_id, unit.superseded_by) for unit in now.units] == [
        ("a", "new"),
        ("b", ""),
        ("other", ""),
    ]
    assert now.neighbourhoods["a"].in_degree == 2


async def test_rejected_neighbours_and_kinds(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    kinds = (ContextUnitKind.DECISION, ContextUnitKind.OBSERVATION)
    graph.add(OracleUnit("s"), *(OracleUnit(f"u{n}", kind=kinds[n % 2], task_step=1) for n in range(4)))
    for n in range(4):
        graph.link("s", f"u{n}")
    graph.rejects["f"] = {"u0", "u1", "s"}
    served = await serve(graph)
    everything = await near(served, tenant_id, "s")
    assert (ids(everything), everything.blocked_count) == (["u0", "u1", "u2", "u3"], 0)
    found = await near(served, tenant_id, "s", fingerprint="f")
    assert (ids(found), found.blocked_count) == (["u2", "u3"], 2)
    found = await near(served, tenant_id, "s", fingerprint="f", candidate_ids=("s", "u0", "u2"))
    assert (ids(found), found.blocked_count) == (["u3"], 1)
    decisions = frozenset({ContextUnitKind.DECISION})
    found = await near(served, tenant_id, "s", fingerprint="f", kinds=decisions)
    assert (ids(found), found.blocked_count) == (["u2"], 1)
    assert found.neighbourhoods == everything.neighbourhoods


# Descriptions


async def described(
    served: ContextGraph, tenant_id: str, *candidate_ids: str, agent_id: str = "ann", **fields: object
) -> Descriptions:
    query = DescriptionQuery(candidate_ids, **({"statistics": NO_TERMS, "embedding": None} | fields))  # type: ignore[arg-type]
    return (await served.describe(principal(tenant_id, agent_id), query, OPTIONS)).result


async def test_candidates_are_scored_as_the_search_scores(serve: Serve, tenant_id: str) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(6, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = ("apple pie", "apples and pears in a long text of many words", "pear", "refreshing", "nothing", "")
    graph = OracleGraph(tenant_id)
    for n, text in enumerate(texts):
        embedding = None if n == 1 else tuple(vectors[n].tolist())
        graph.add(OracleUnit(f"u{n}", text=text, path=f"dir/pear{n}.md" if n == 4 else "", embedding=embedding))
    graph.add(OracleUnit("theirs", "bob", text="apple"))
    served = await serve(graph)
    asked = vectors[0] * 0.6 + vectors[2] * 0.8
    asked /= np.linalg.norm(asked)
    topic = (await served.search(principal(tenant_id), TopicQuery("apple pear", asked), OPTIONS)).result
    found = await described(served, tenant_id, *graph.units, statistics=topic.statistics, embedding=asked)
    assert set(found.by_id) == {f"u{n}" for n in range(6)}
    assert len(topic.hits) == 6
    for hit in topic.hits:
        one = found.by_id[hit.entry.unit_id]
        assert (one.full_text_score, one.term_coverage) == (hit.full_text_score, hit.term_coverage)
        assert one.vector_score == (
            None if hit.vector_score is None else pytest.approx(hit.vector_score, abs=VECTOR_INDEX_ERROR)
        )
        assert one.lead == texts[int(hit.entry.unit_id[1])]
    scored = {unit_id for unit_id, one in found.by_id.items() if one.full_text_score is not None}
    assert scored == {"u0", "u1", "u2", "u4"}
    without = await described(served, tenant_id, "u0", statistics=topic.statistics)
    assert without.by_id["u0"].vector_score is None
    assert without.by_id["u0"].full_text_score == found.by_id["u0"].full_text_score


async def test_the_lead_is_the_start_of_the_text(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("a", text="é" * 200), OracleUnit("b"))
    found = await described(await serve(graph), tenant_id, "a", "b")
    assert {unit_id: one.lead for unit_id, one in found.by_id.items()} == {"a": "é" * 96, "b": ""}


async def test_units_of_a_tool_call_belong_together(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name, tool_call_id="call-1") for name in ("call", "result", "result2")))
    graph.add(OracleUnit("elsewhere", session_id="s2", tool_call_id="call-1"))
    graph.add(OracleUnit("bobs", "bob", tool_call_id="call-1"))
    graph.add(OracleUnit("call-2", tool_call_id="call-2"), OracleUnit("note"), OracleUnit("note2"))
    graph.share("ann", "s2", "ann")
    graph.share("bob")
    served = await serve(graph)
    found = await described(served, tenant_id, "result", "note", "call-2", "elsewhere")
    # What was found is known with what it needs in turn.
    assert found.companion_ids == {
        "call": ("result", "result2"),
        "result": ("call", "result2"),
        "result2": ("call", "result"),
    }
    assert ids(found) == ["call", "result2"]
    assert set(found.by_id) == {"result", "note", "call-2", "elsewhere", "call", "result2"}
    assert found.blocked_ids == frozenset()
    whole = await described(served, tenant_id, "result", "call", "result2")
    assert (ids(whole), whole.companion_ids) == ([], found.companion_ids)


async def test_a_chunk_needs_its_header_and_not_the_other_way_round(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(name) for name in ("chunk", "header", "file", "cause")), OracleUnit("bobs", "bob"))
    graph.link("chunk", "header", EdgeType.PROVENANCE, role="header")
    graph.link("chunk", "file", EdgeType.PROVENANCE, role="file")
    graph.link("chunk", "cause", EdgeType.CAUSATION, role="header")
    graph.link("chunk", "bobs", EdgeType.PROVENANCE, role="header")
    served = await serve(graph)
    found = await described(served, tenant_id, "chunk", "file")
    assert (ids(found), found.companion_ids) == (["header"], {"chunk": ("header",)})
    assert (await described(served, tenant_id, "header", "cause")).companion_ids == {}


async def test_companions_of_companions(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("chunk"), OracleUnit("head", tool_call_id="c"), OracleUnit("call", tool_call_id="c"))
    graph.link("chunk", "head", EdgeType.PROVENANCE, role="header")
    served = await serve(graph)
    found = await described(served, tenant_id, "chunk")
    assert ids(found) == ["call", "head"]
    assert found.companion_ids == {"chunk": ("head",), "head": ("call",), "call": ("head",)}
    assert set(found.by_id) == {"chunk", "head", "call"}


async def test_an_old_version_of_a_result_is_not_needed(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    for day, name in enumerate(("call", "old", "new")):
        graph.add(OracleUnit(name, tool_call_id="c", timestamp=EPOCH + timedelta(days=day)))
    graph.add(OracleUnit("lone", tool_call_id="d"), OracleUnit("asked", tool_call_id="d"), OracleUnit("later"))
    graph.add(OracleUnit("bobs", "bob", tool_call_id="c"))
    graph.share("bob")
    graph.link("new", "old", EdgeType.SUPERSESSION)
    graph.link("bobs", "new", EdgeType.SUPERSESSION)
    # Superseded, but by nothing that could stand in its place: without it the other cannot be read.
    graph.link("later", "lone", EdgeType.SUPERSESSION)
    graph.add(OracleUnit("result", tool_call_id="e"), OracleUnit("request", tool_call_id="e"))
    graph.add(OracleUnit("verdict", tool_call_id="e", kind=ContextUnitKind.DECISION))
    graph.link("verdict", "result", EdgeType.SUPERSESSION)
    served = await serve(graph)
    assert (await described(served, tenant_id, "request")).companion_ids["request"] == ("result", "verdict")
    found = await described(served, tenant_id, "call", "asked")
    assert found.companion_ids == {"call": ("new",), "new": ("call",), "asked": ("lone",), "lone": ("asked",)}
    assert [(u.entry.unit_id, u.superseded_by) for u in found.units] == [("lone", "later"), ("new", "bobs")]
    then = await described(served, tenant_id, "call", as_of=EPOCH + timedelta(days=1))
    assert then.companion_ids == {"call": ("old",), "old": ("call",)}
    assert [(u.entry.unit_id, u.superseded_by) for u in then.units] == [("old", "")]


async def test_companions_are_visible_ones(serve: Serve, tenant_id: str) -> None:
    decision = ContextUnitKind.DECISION
    graph = OracleGraph(tenant_id)
    for agent_id, session_id in (("bob", "s1"), ("ann", "s2")):
        name = f"{agent_id}-{session_id}-"
        graph.add(OracleUnit(name + "call", agent_id, session_id, decision, tool_call_id="c"))
        graph.add(OracleUnit(name + "result", agent_id, session_id, tool_call_id="c"))
        graph.add(OracleUnit(name + "header", agent_id, session_id), OracleUnit(name + "new", agent_id, session_id))
        graph.link(name + "call", name + "header", EdgeType.PROVENANCE, role="header")
        graph.add(OracleUnit(name + "decided", agent_id, session_id, decision, tool_call_id="c"))
        graph.link(name + "new", name + "decided", EdgeType.SUPERSESSION)
    graph.share(grantee_agent_id="ann", grantee_session_id="s1", kinds=[decision])
    served = await serve(graph)
    found = await described(served, tenant_id, "bob-s1-call", "ann-s2-call")
    assert found.companion_ids == {
        "bob-s1-call": ("bob-s1-decided",),
        "bob-s1-decided": ("bob-s1-call",),
        "ann-s2-call": ("ann-s2-decided",),
        "ann-s2-decided": ("ann-s2-call",),
    }
    assert [(u.entry.unit_id, u.superseded_by) for u in found.units] == [("ann-s2-decided", ""), ("bob-s1-decided", "")]


async def test_companions_as_of_a_time(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    day = EPOCH + timedelta(days=1)
    graph.add(OracleUnit("a", tool_call_id="c"), OracleUnit("b", tool_call_id="c"), OracleUnit("header"))
    graph.add(OracleUnit("late", tool_call_id="c", timestamp=day), OracleUnit("late-header", timestamp=day))
    graph.add(*(OracleUnit(name, timestamp=day) for name in ("n1", "n2")))
    graph.link("a", "header", EdgeType.PROVENANCE, role="header")
    graph.link("a", "late-header", EdgeType.PROVENANCE, role="header")
    graph.link("n2", "header", EdgeType.SUPERSESSION)
    graph.link("n1", "header", EdgeType.SUPERSESSION)
    served = await serve(graph)
    then = await described(served, tenant_id, "a", as_of=EPOCH)
    assert then.companion_ids == {"a": ("b", "header"), "b": ("a",)}
    assert [(u.entry.unit_id, u.superseded_by) for u in then.units] == [("b", ""), ("header", "")]
    now = await described(served, tenant_id, "a")
    assert now.companion_ids["a"] == ("b", "header", "late", "late-header")
    assert {u.entry.unit_id: u.superseded_by for u in now.units}["header"] == "n1"


async def test_rejected_companions_are_named(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("call", tool_call_id="c"), OracleUnit("result", tool_call_id="c"))
    graph.add(OracleUnit("bobs", "bob", tool_call_id="c"), OracleUnit("chunk"))
    graph.link("chunk", "bobs", EdgeType.PROVENANCE, role="header")
    graph.rejects["f"] = {"call", "bobs"}
    served = await serve(graph)
    found = await described(served, tenant_id, "result", "chunk", fingerprint="f")
    assert (ids(found), found.companion_ids, found.blocked_ids) == ([], {"result": ("call",)}, {"call"})
    assert set(found.by_id) == {"result", "chunk"}
    assert (await described(served, tenant_id, "result", fingerprint="other")).blocked_ids == frozenset()


async def test_nothing_is_told_of_invisible_candidates(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("mine", tool_call_id="c", timestamp=EPOCH + timedelta(days=1)))
    graph.add(OracleUnit("bobs", "bob", text="secret"), OracleUnit("early", tool_call_id="c"))
    graph.link("bobs", "mine", EdgeType.PROVENANCE, role="header")
    served = await serve(graph)
    nothing = Descriptions({}, (), {})
    assert await described(served, tenant_id, "bobs", "absent") == nothing
    assert await described(served, tenant_id, "mine", as_of=EPOCH) == nothing
    assert await described(served, tenant_id, "mine", agent_id="zoe") == nothing
    assert await described(served, tenant_id) == nothing


async def test_at_most_eight_companions(serve: Serve, tenant_id: str) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(*(OracleUnit(f"u{n:02d}", tool_call_id="c") for n in range(12)))
    found = await described(await serve(graph), tenant_id, "u03")
    assert found.companion_ids["u03"] == ("u00", "u01", "u02", "u04", "u05", "u06", "u07", "u08")


# What only a database holds


async def test_rejections_that_are_lifted_or_expired_do_not_hold(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    names = ("holds", "lifted", "expired", "expires")
    graph.add(OracleUnit("s", tool_call_id="c"), *(OracleUnit(name, tool_call_id="c") for name in names))
    for name in names:
        graph.link("s", name)
    await graph.write(graph_driver)
    now = graph.clock.now()
    await graph_driver.execute_query(
        """
        CREATE (query:Query {tenant_id: $tenant_id, fingerprint: 'f'})
        WITH query UNWIND $rows AS row
        MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: row[0]})
        CREATE (query)-[:REJECTS {reason: 'DOMAIN_MISMATCH', lifted_time: row[1], expires_time: row[2]}]->(unit)
        """,
        tenant_id=tenant_id,
        rows=[
            ["holds", None, None],
            ["lifted", now - timedelta(days=1), None],
            ["expired", None, now],
            ["expires", None, now + timedelta(seconds=1)],
        ],
    )
    found = await near(connection.graph, tenant_id, "s", fingerprint="f")
    assert (ids(found), found.blocked_count) == (["expired", "lifted"], 2)
    companions = await described(connection.graph, tenant_id, "s", fingerprint="f")
    assert (ids(companions), companions.blocked_ids) == (["expired", "lifted"], {"holds", "expires"})
    recent = await connection.graph.list_recent(principal(tenant_id), RecentQuery(9, "f"), OPTIONS)
    assert [entry.unit_id for entry in recent.result] == ["expired", "lifted", "s"]


async def test_vectors_of_another_length_are_none(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    vector = np.eye(DIMENSIONS, dtype=np.float32)[0]
    graph.add(OracleUnit("short", embedding=(1.0, 0.0)), OracleUnit("a", embedding=tuple(vector.tolist())))
    await graph.write(graph_driver)
    found = await described(connection.graph, tenant_id, "short", "a", embedding=vector)
    assert {unit_id: one.vector_score for unit_id, one in found.by_id.items()} == {
        "short": None,
        "a": pytest.approx(1.0),
    }
