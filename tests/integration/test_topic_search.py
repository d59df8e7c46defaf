"""Topic search on the real indexes: hostile text, scripts, identifiers, and small scopes beside big ones."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import neo4j
import numpy as np
import pytest

from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ports import ReadOptions, TopicQuery, TopicResult, Vector
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import DIMENSIONS, GraphConnection, connected_graph, principal
from tests.support.graph_oracle import EPOCH, OracleGraph, OracleUnit, write_all

OPTIONS = ReadOptions(timeout_ms=30_000)


@pytest.fixture(scope="module")
async def connection(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphConnection]:
    async with connected_graph(neo4j_endpoints) as connected:
        yield connected


def vector(seed: int) -> Vector:
    numbers = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return numbers / np.linalg.norm(numbers)


def found(result: TopicResult) -> set[str]:
    return {hit.entry.unit_id for hit in result.hits}


async def ask(connection: GraphConnection, tenant_id: str, text: str, **query: object) -> TopicResult:
    asked = replace(TopicQuery(text=text, embedding=None), **query)
    return (await connection.graph.search(principal(tenant_id), asked, OPTIONS)).result


def hostile_strings(count: int) -> list[str]:
    """Lucene's syntax, broken and whole, in many mixtures."""
    source = random.Random(11)
    pieces = [
        "C++ (templates?", "~alien", "AND", "OR", "NOT", '"', "'", "(", ")", "[", "]", "{", "}", "^", "^9", "~", "~2",
        "*", "?", ":", "\\", "/", "/re.*/", "+", "-", "&&", "||", "!", "<", ">", "=", "a:b", "excerpt:",
        "scope_terms:x", "+scope_terms:current0", "+tenant", "[a TO b]", "{* TO z}", "a*b", "\x00", "\n", "日本語",
        "👩\u200d👧", "é", "e\u0301", "ﬁ", "\u093c", "\u200b", "\u202e", "word", "x" * 300, "1e9", "NaN", "$tenant_id",
        "'; DROP", "}) RETURN 1 //", "%s", "{0}", "_exists_:x", "*:*", "fuzzy~0.5", "the", "term^0", "\\u0041", "--",
        "한국어", "🤖",
    ]  # fmt: skip
    fixed = [
        "",
        " ",
        "…",
        "!!! ???",
        "AND OR NOT",
        "AND",
        '"unbalanced',
        "(((",
        "*:*",
        " ".join(f"word{n}" for n in range(200)),
    ]
    made = ["".join(source.choices(pieces, k=source.randint(1, 9))) for _ in range(count - len(fixed))]
    spaced = [" ".join(text) if source.random() < 0.2 else text for text in made]
    return fixed + spaced


async def test_500_hostile_strings_give_no_error(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(OracleUnit("mine", text="plain word"), OracleUnit("theirs", agent_id="bob", text="plain word current0"))
    other = OracleGraph(tenant_id + "x")
    other.add(OracleUnit("foreign", text="plain word"))
    await write_all(graph_driver, [graph, other])
    texts = hostile_strings(500)
    assert len(texts) == 500
    for text in texts:
        result = await ask(connection, tenant_id, text)
        assert found(result) <= {"mine"}, text
        assert result.usable_terms or not result.hits
        assert result.visible_scopes == 1
    for text in ("", "…", "AND OR NOT", "*:*"):
        assert not (await ask(connection, tenant_id, text)).usable_terms


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("検索", {"ja"}),
        ("東京都", {"ja"}),
        ("京都府", set()),
        ("索検", set()),
        ("检索", {"zh"}),
        ("한국어", {"ko"}),
        ("cafe", {"fr"}),
        ("CAFÉ", {"fr"}),
        ("naïve", {"fr"}),
        ("user name", {"camel", "snake"}),
        ("get_user_name", {"camel", "snake"}),
        ("getUserName", {"camel", "snake"}),
        ("get-user-name", {"camel", "snake"}),
        ("logins", {"path"}),
        ("auth", {"path"}),
        ("C++", {"cpp"}),
        ("templates", {"cpp"}),
        ("template", {"cpp"}),
    ],
)
async def test_words_and_scripts(connection: GraphConnection, scripts: str, query: str, expected: set[str]) -> None:
    assert found(await ask(connection, scripts, query)) == expected


@pytest.fixture(scope="module")
async def scripts(graph_driver: neo4j.AsyncDriver, connection: GraphConnection) -> str:
    graph = OracleGraph(f"t-{uuid.uuid4().hex[:16]}")
    graph.add(
        OracleUnit("ja", text="東京都の図書館で検索機能を使う"),
        OracleUnit("zh", text="全文检索服务"),
        OracleUnit("ko", text="한국어 문서"),
        OracleUnit("fr", text="un Café naïf, naïve"),
        OracleUnit("camel", text="def getUserName(): ..."),
        OracleUnit("snake", text="def get_user_name(): ..."),
        OracleUnit("path", text="refresh the token", path="src/auth/loginFlow.py"),
        OracleUnit("cpp", text="C++ with templates"),
    )
    await graph.write(graph_driver)
    return graph.tenant_id


async def test_nothing_is_starved(connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str) -> None:
    """10 units beside 10,000 of another tenant, of another agent, and of old versions: k of them are still found."""
    big = OracleGraph(tenant_id + "-big")
    for n in range(10_000):
        embedding = vector(n % 50) if n < 2000 else None
        big.add(
            OracleUnit(
                f"b{n}", text="token refresh", embedding=None if embedding is None else tuple(embedding.tolist())
            )
        )
    small = OracleGraph(tenant_id)
    for n in range(10):
        small.add(
            OracleUnit(
                f"s{n}", text="token refresh with many more words around it", embedding=tuple(vector(n).tolist())
            )
        )
    for n in range(2_000):
        small.add(OracleUnit(f"o{n}", agent_id="bob", text="token refresh", embedding=tuple(vector(n % 10).tolist())))
    await write_all(graph_driver, [big, small])
    mine = {f"s{n}" for n in range(10)}

    by_text = await ask(connection, tenant_id, "token refresh", limit=10)
    assert found(by_text) == mine
    by_vector = await ask(connection, tenant_id, "", embedding=vector(3), limit=10)
    assert found(by_vector) == mine
    best = max(by_vector.hits, key=lambda hit: hit.vector_score or 0.0)
    assert best.entry.unit_id == "s3"
    assert best.vector_score == pytest.approx(1.0, abs=1e-4)
    both = await ask(connection, tenant_id, "token refresh", embedding=vector(3), limit=4)
    assert all(hit.full_text_score is not None or hit.vector_score is not None for hit in both.hits)
    assert 4 <= len(both.hits) <= 8


async def test_policies_share_by_owner_kind_and_time(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    now = graph.clock.now()
    embedding = tuple(vector(1).tolist())
    for agent in ("ann", "bob", "cid", "dan"):
        for session in ("s1", "s2"):
            for kind in (ContextUnitKind.DECISION, ContextUnitKind.OBSERVATION):
                graph.add(
                    OracleUnit(f"{agent}-{session}-{kind}", agent, session, kind, text="apple", embedding=embedding)
                )
    graph.share("bob", "s1", grantee_agent_id="ann", kinds=[ContextUnitKind.DECISION])
    graph.share("cid", "", grantee_agent_id="", kinds=list(ContextUnitKind), expires_time=now + timedelta(seconds=1))
    graph.share("dan", "", grantee_agent_id="ann", expires_time=now)
    graph.share("", "s2", grantee_agent_id="zoe", kinds=[ContextUnitKind.OBSERVATION])
    graph.share("", "", grantee_agent_id="eve", kinds=[ContextUnitKind.DECISION])
    await graph.write(graph_driver)
    for agent in ("ann", "bob", "zoe", "eve"):
        for query in (
            TopicQuery("apple", None),
            TopicQuery("", vector(1)),
            TopicQuery("apple", vector(1), kinds=frozenset({ContextUnitKind.DECISION})),
        ):
            asker = principal(tenant_id, agent)
            expected = found((await graph.search(asker, query, OPTIONS)).result)
            assert found((await connection.graph.search(asker, query, OPTIONS)).result) == expected, (agent, query)
    nobody = await connection.graph.search(principal(tenant_id + "z"), TopicQuery("apple", vector(1)), OPTIONS)
    assert (nobody.result.hits, nobody.result.visible_scopes) == ((), 0)


async def test_many_policies(connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str) -> None:
    """A hundred scopes with all kinds but one fit into one Lucene query with 64 words, and more than that is said."""
    graph = OracleGraph(tenant_id)
    kinds = sorted(ContextUnitKind)[1:]
    for n in range(120):
        graph.add(
            OracleUnit(f"u{n:03d}", f"agent{n}", text="applesauce", kind=kinds[0], embedding=tuple(vector(n).tolist()))
        )
    for n in range(90):
        graph.share(f"agent{n}", "s1", grantee_agent_id="ann", kinds=kinds)
    await graph.write(graph_driver)
    words = "applesauce " + " ".join(f"word{n}" for n in range(100))
    result = await ask(connection, tenant_id, words, limit=200)
    assert len(result.hits) == 90
    assert not result.partial
    near = await ask(connection, tenant_id, "", embedding=vector(5), limit=90)
    assert found(near) == {f"u{n:03d}" for n in range(90)}
    assert not near.partial
    more = OracleGraph(tenant_id)
    for n in range(120):
        more.share(f"agent{n}", "s2", grantee_agent_id="ann", kinds=kinds)
    for policy in more.policies:
        more.policies[more.policies.index(policy)] = replace(policy, policy_id="x" + policy.policy_id)
    await more.write(graph_driver)
    assert (await ask(connection, tenant_id, words, limit=200)).partial


async def test_versions_blocks_and_time(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, tenant_id: str
) -> None:
    graph = OracleGraph(tenant_id)
    graph.add(
        OracleUnit("old", text="apple", timestamp=EPOCH),
        OracleUnit("new", text="apple", timestamp=EPOCH + timedelta(days=2)),
        OracleUnit("other", text="apple", timestamp=EPOCH + timedelta(days=1), kind=ContextUnitKind.DECISION),
    )
    graph.link("new", "old", EdgeType.SUPERSESSION)
    graph.link("new", "other", EdgeType.SUPERSESSION)
    graph.rejects["f"] = {"new"}
    await graph.write(graph_driver)

    now = await ask(connection, tenant_id, "apple")
    assert {(hit.entry.unit_id, hit.superseded_by) for hit in now.hits} == {("new", ""), ("other", "new")}
    then = await ask(connection, tenant_id, "apple", as_of=EPOCH + timedelta(days=1))
    assert {(hit.entry.unit_id, hit.superseded_by) for hit in then.hits} == {("old", ""), ("other", "")}
    blocked = await ask(connection, tenant_id, "apple", fingerprint="f")
    assert (found(blocked), blocked.blocked_count) == ({"other"}, 1)
