"""Gates of the neutral selection layer: N1 to N4, N10, and of N5, N6 and N9 what a service without steps has."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import neo4j
import pytest
import structlog

from graphsvc.client import EdgeInput, GraphsvcCallError, GraphsvcClient, RankedUnit, RelationInput, UnitInput
from graphsvc.domain.candidates import Outcome
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import ContextUnitKind, EdgeType, EpistemicStatus, Tier, ToolCall
from graphsvc.v1 import context_service_pb2, core_pb2, retrieval_service_pb2
from tests.gates.conftest import FrozenService
from tests.gates.stubs import Refusal, Stubs
from tests.gates.worlds import around, by_key, put_around
from tests.support.service import Service

KINDS = {
    "tool_result",
    "decision",
    "state_snapshot",
    "progress_note",
    "constraint",
    "correction",
    "observation",
}
EDGE_TYPES = {"dependency", "provenance", "supersession", "causation"}


@pytest.fixture
async def tenant(service: Service) -> str:
    """A tenant of its own."""
    return await service.tenant()


@pytest.fixture
async def client(service: Service, tenant: str) -> GraphsvcClient:
    """An agent of that tenant."""
    return await service.client(tenant, "agent-a")


# ---- N1: one schema -------------------------------------------------------------------------------------------------

SCHEMA_FIELDS = {
    # id, kind, content
    "unit_id", "unit_key", "kind", "content",
    # metadata
    "timestamp", "agent_id", "session_id", "task_step", "epistemic_status", "provenance", "relevance_score", "tier",
    # relations
    "relations",
    # documented optional fields
    "path", "model", "pinned", "tool_call", "vendor_state", "task_id", "embedding",
    # kept by the service
    "created_time", "content_sha256", "size_bytes", "token_counts", "superseded_by",
}  # fmt: skip


def test_N1_the_schema_has_these_fields_and_no_other() -> None:
    assert set(core_pb2.ContextUnit.DESCRIPTOR.fields_by_name) == SCHEMA_FIELDS
    assert set(core_pb2.Relation.DESCRIPTOR.fields_by_name) == {
        "target_id",
        "target_key",
        "edge_type",
        "role",
        "weight",
    }


async def test_N1_every_field_comes_back_as_written(client: GraphsvcClient, session_id: str) -> None:
    target = (await client.put(session_id, [UnitInput("decision", "the target", unit_key="target")]))[0]
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    call = ToolCall("call_7", "read_file", '{"path": "a.py", "depth": 2}')
    content = "Result:\n\n| a | b |\n|---|---|\n| 1 | 漢字 |\n"
    written = UnitInput(
        "tool_result",
        content,
        unit_key="the key",
        timestamp=moment,
        task_step=3,
        task_id="T-42",
        epistemic_status=EpistemicStatus.DISPUTED,
        provenance=("a.py:10", "commit 1234"),
        relations=[
            RelationInput("dependency", target_id=target.unit_id, role="imports", weight=0.25),
            RelationInput("provenance", target_key="target", role="chunk → file"),
        ],
        path="src/a.py",
        model="claude-sonnet-4",
        pinned=True,
        tool_call=call,
        vendor_state=bytes(range(256)),
    )
    before = datetime.now(UTC)
    outcome = (await client.put(session_id, [written]))[0]
    (unit,) = (await client.get(session_id, [outcome.unit_id])).units

    assert (unit.unit_id, unit.unit_key, unit.kind) == (outcome.unit_id, "the key", ContextUnitKind.TOOL_RESULT)
    assert unit.content == content
    assert unit.timestamp == moment
    assert (unit.agent_id, unit.session_id, unit.task_step, unit.task_id) == ("agent-a", session_id, 3, "T-42")
    assert unit.epistemic_status is EpistemicStatus.DISPUTED
    assert unit.provenance == ("a.py:10", "commit 1234")
    assert 0 <= unit.relevance_score <= 1
    assert unit.tier in set(Tier)
    assert (unit.path, unit.model, unit.pinned) == ("src/a.py", "claude-sonnet-4", True)
    assert unit.tool_call == call
    assert unit.vendor_state == bytes(range(256))
    assert {(r.target_id, r.edge_type, r.role, r.weight) for r in unit.relations} == {
        (target.unit_id, EdgeType.DEPENDENCY, "imports", 0.25),
        (target.unit_id, EdgeType.PROVENANCE, "chunk → file", 1.0),
    }
    assert before - timedelta(minutes=1) < unit.created_time < datetime.now(UTC) + timedelta(minutes=1)
    assert unit.content_sha256 == hashlib.sha256(content.encode()).hexdigest()
    assert unit.size_bytes == len(content.encode())
    assert set(unit.token_counts) == {"cl100k_base", "o200k_base"}
    assert unit.superseded_by == ""


async def test_N1_weight_is_zero_to_one(client: GraphsvcClient, session_id: str) -> None:
    await client.put(session_id, [UnitInput("decision", "the target", unit_key="target")])
    for weight in (-0.01, 1.01, float("nan"), float("inf")):
        with pytest.raises(GraphsvcCallError) as refused:
            await client.put(
                session_id,
                [
                    UnitInput(
                        "decision", "x", relations=[RelationInput("dependency", target_key="target", weight=weight)]
                    )
                ],
            )
        assert refused.value.reason == "FIELD_INVALID"


# ---- N2: closed sets ------------------------------------------------------------------------------------------------


async def test_N2_kinds_are_a_closed_enum_of_seven(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    assert {kind.value for kind in ContextUnitKind} == KINDS
    names = {name.removeprefix("CONTEXT_UNIT_KIND_").lower() for name in core_pb2.ContextUnitKind.keys()}  # noqa: SIM118
    assert names == KINDS | {"unspecified"}

    outcomes = await client.put(session_id, [UnitInput(kind, f"a {kind}") for kind in sorted(KINDS)])
    found = await client.get(session_id, [one.unit_id for one in outcomes])
    assert [unit.kind.value for unit in found.units] == sorted(KINDS)

    key = await service.api_key(tenant, "agent-a")
    for number, reason in ((0, "FIELD_REQUIRED"), (8, "FIELD_INVALID"), (-1, "FIELD_INVALID")):
        request = context_service_pb2.PutUnitsRequest(
            request_id=f"r{number}", session_id=session_id, units=[core_pb2.ContextUnit(kind=number, content="x")]
        )
        answer = await stubs.call("PutUnits", request, key)
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.reason) == ("INVALID_ARGUMENT", reason)


async def test_N2_edge_types_are_a_closed_enum_of_four_and_roles_are_open(
    service: Service, stubs: Stubs, tenant: str, client: GraphsvcClient, session_id: str
) -> None:
    assert {edge_type.value for edge_type in EdgeType} == EDGE_TYPES
    names = {name.removeprefix("EDGE_TYPE_").lower() for name in core_pb2.EdgeType.keys()}  # noqa: SIM118
    assert names == EDGE_TYPES | {"unspecified"}

    outcomes = await client.put(session_id, [UnitInput("observation", f"unit {n}") for n in range(5)])
    source, *targets = [one.unit_id for one in reversed(outcomes)]  # the newest may supersede the others
    roles = ("imports", "test → subject", "co-change", "любая роль")
    edges = [
        EdgeInput(source, RelationInput(edge_type, target_id=target, role=role))
        for edge_type, target, role in zip(sorted(EDGE_TYPES), targets, roles, strict=True)
    ]
    assert await client.link(session_id, edges) == (True,) * 4
    (unit,) = (await client.get(session_id, [source])).units
    assert {(r.edge_type.value, r.role) for r in unit.relations} == set(zip(sorted(EDGE_TYPES), roles, strict=True))

    key = await service.api_key(tenant, "agent-a")
    for number, reason in ((0, "FIELD_REQUIRED"), (5, "FIELD_INVALID")):
        request = context_service_pb2.LinkUnitsRequest(
            request_id=f"e{number}",
            session_id=session_id,
            edges=[
                context_service_pb2.UnitEdge(
                    source_id=source, relation=core_pb2.Relation(target_id=targets[0], edge_type=number)
                )
            ],
        )
        answer = await stubs.call("LinkUnits", request, key)
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.reason) == ("INVALID_ARGUMENT", reason)


async def test_N2_turn_order_is_the_step_and_not_an_edge(
    client: GraphsvcClient, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    outcomes = await client.put(
        session_id, [UnitInput("progress_note", f"turn {step}", task_step=step) for step in range(5)]
    )
    (row,), _, _ = await graph_driver.execute_query(
        """
        MATCH (u:ContextUnit) WHERE u.unit_id IN $ids
        WITH u ORDER BY u.task_step
        RETURN collect(u.unit_id) AS ids, sum(COUNT { (u)-[]-(:ContextUnit) }) AS edges
        """,
        ids=[one.unit_id for one in outcomes],
    )
    assert row["edges"] == 0
    assert row["ids"] == [one.unit_id for one in outcomes]


# ---- N3: plain text or Markdown -------------------------------------------------------------------------------------

REFUSED: Mapping[str, tuple[str, str]] = {
    "NUL": ("text with a \x00 byte", "reference"),
    "control characters": ("\x89PNG\r\n\x1a\n\x02\x03", "reference"),
    "JSON object": ('{"answer": 42}', "code fence"),
    "JSON array": ("  [1, 2, 3]\n", "code fence"),
    "nested JSON": ("[" * 5_000 + "]" * 5_000, "code fence"),
    "JSON with a byte order mark": ('\ufeff{"a": 1}', "code fence"),
    "doctype": ("<!DOCTYPE html><title>x</title>", "code fence"),
    "HTML element": ("<div class='x'>text</div>", "code fence"),
    "HTML after a comment": ("<!-- c -->\n<html><body>", "code fence"),
    "white space": (" \n\t ", "character"),
    "more than 1 MiB": ("word " * 210_000, "split"),
}
ACCEPTED: Mapping[str, str] = {
    "Markdown": '# Title\n\n- item\n\n```json\n{"a": 1}\n```\n',
    "JSON in a fence": '```json\n{"answer": 42}\n```',
    "JSON with words": 'The answer is {"answer": 42}',
    "a number": "42",
    "an autolink": "<https://example.org> is the page",
    "a generic type": "<T> is a type parameter",
    "a Markdown link": "[1, 2]: see the list [here](x)",
    "brackets that are no JSON": "[x] done\n[ ] open",
    "terminal colours": "\x1b[31mred\x1b[0m text",
    "Unicode": "漢字 👩‍👩‍👧 e\u0301",
}


@pytest.mark.parametrize("case", REFUSED)
async def test_N3_what_is_no_text_is_refused_with_advice(client: GraphsvcClient, session_id: str, case: str) -> None:
    content, advice = REFUSED[case]
    with pytest.raises(GraphsvcCallError) as refused:
        await client.put(session_id, [UnitInput("observation", "fine"), UnitInput("observation", content)])

    assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "CONTENT_INVALID")
    assert advice in refused.value.message
    assert "units[1].content" in refused.value.field_violations
    assert [unit async for unit in client.list(session_id)] == [], "nothing of the batch was written"


async def test_N3_text_and_markdown_are_kept_byte_for_byte(client: GraphsvcClient, session_id: str) -> None:
    outcomes = await client.put(session_id, [UnitInput("observation", content) for content in ACCEPTED.values()])
    found = await client.get(session_id, [one.unit_id for one in outcomes])

    assert [unit.content for unit in found.units] == list(ACCEPTED.values())


# ---- N4: vendor formats ---------------------------------------------------------------------------------------------

VENDOR_BODIES = {
    "OpenAI": {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]},
    "OpenAI tool call": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    "Claude": {
        "model": "claude-sonnet-4",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
    },
    "Gemini": {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]},
    "DeepSeek": {"choices": [{"message": {"role": "assistant", "reasoning_content": "…", "content": "x"}}]},
}


@pytest.mark.parametrize("vendor", VENDOR_BODIES)
async def test_N4_a_vendors_body_is_never_content(client: GraphsvcClient, session_id: str, vendor: str) -> None:
    for indent in (None, 2):
        with pytest.raises(GraphsvcCallError) as refused:
            await client.put(session_id, [UnitInput("observation", json.dumps(VENDOR_BODIES[vendor], indent=indent))])
        assert refused.value.reason == "CONTENT_INVALID"


async def test_N4_vendor_state_is_opaque_and_never_primary(
    client: GraphsvcClient, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    state = json.dumps({"thinking": "zqxjkvsignature"}).encode()
    encoded = base64.b64encode(state).decode()
    (outcome,) = await client.put(
        session_id, [UnitInput("decision", "use the cache", vendor_state=state, model="claude-sonnet-4")]
    )
    found = await client.retrieve(session_id, "zqxjkvsignature", retrieval_budget=1_000)
    around_it = await client.retrieve(session_id, anchor_unit_ids=[outcome.unit_id], retrieval_budget=1_000)

    assert all(one.full_text_score is None for one in found.candidates), "never searched"
    assert around_it.outcome is Outcome.SELECTED
    for payload in (found.payload, around_it.payload):
        assert "zqxjkvsignature" not in payload, "never rendered"
        assert encoded not in payload
    (row,), _, _ = await graph_driver.execute_query(
        "MATCH (u:ContextUnit {unit_id: $id}) RETURN u {.*} AS unit", id=outcome.unit_id
    )
    holding = {name for name, value in row["unit"].items() if "zqxjkvsignature" in str(value)}
    assert holding == {"vendor_state"}
    assert bytes(row["unit"]["vendor_state"]) == state


# ---- N5: identity, permissions, strategy ----------------------------------------------------------------------------


def _queries(lines: list[Any]) -> set[str]:
    (line,) = [line for line in lines if "rpc" in line]
    return set(line["queries"])


async def test_N5_identity_then_permissions_then_strategy(
    service: Service, stubs: Stubs, tenant: str, session_id: str
) -> None:
    malformed = retrieval_service_pb2.RetrieveRequest()
    writer_only = await service.api_key(tenant, "agent-a", frozenset({Role.WRITER}))
    reader = await service.api_key(tenant, "agent-a", frozenset({Role.READER}))
    other = await service.client(await service.tenant(), "agent-a")
    await other.put("s", [UnitInput("decision", "theirs")])
    foreign = retrieval_service_pb2.RetrieveRequest(session_id=session_id, query="x")
    foreign.budget.retrieval_budget = 1_000
    foreign.consistency.at_least_as_fresh.token = other.last_revision

    # who calls is decided before what it may, and that before what it asks
    cases = (
        (malformed, None, "UNAUTHENTICATED", "CREDENTIALS_MISSING", set()),
        (malformed, "gsk_nobody", "UNAUTHENTICATED", "CREDENTIALS_INVALID", {"find_key"}),
        (malformed, writer_only, "PERMISSION_DENIED", "ROLE_MISSING", {"find_key"}),
        (malformed, reader, "INVALID_ARGUMENT", "FIELD_REQUIRED", {"find_key"}),
        (foreign, reader, "PERMISSION_DENIED", "OTHER_TENANT", {"find_key"}),
    )
    for request, key, code, reason, allowed in cases:
        with structlog.testing.capture_logs() as lines:
            answer = await stubs.call("Retrieve", request, key)
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.reason) == (code, reason)
        assert _queries(lines) <= allowed, "no strategy ran, nothing was looked up"

    foreign.ClearField("consistency")
    with structlog.testing.capture_logs() as lines:
        answer = await stubs.call("Retrieve", foreign, reader)
    assert not isinstance(answer, Refusal)
    assert {"find_key", "search_topic", "record_retrieval"} <= _queries(lines)


async def test_N5_a_role_does_not_imply_another(service: Service, tenant: str, session_id: str) -> None:
    reader = await service.client(tenant, "agent-a", frozenset({Role.READER}))
    admin = await service.client(tenant, "agent-a", frozenset({Role.ADMIN}))
    for client in (reader, admin):
        with pytest.raises(GraphsvcCallError) as refused:
            await client.put(session_id, [UnitInput("decision", "x")])
        assert (refused.value.code, refused.value.reason) == ("PERMISSION_DENIED", "ROLE_MISSING")
    with pytest.raises(GraphsvcCallError) as refused:
        await admin.get(session_id, ["aaaaaaaaaaaa"])
    assert refused.value.reason == "ROLE_MISSING"


# ---- N6: strategies -------------------------------------------------------------------------------------------------


async def test_N6_strategy_follows_the_type_of_query(client: GraphsvcClient, session_id: str) -> None:
    ids = await put_around(
        client, session_id, [around("anchor", "a", 30, task_id="T-6"), around("a", "b", 30), around("b", "c", 30)]
    )
    task = await client.retrieve(session_id, task_id="T-6", retrieval_budget=1_000)
    unit = await client.retrieve(session_id, anchor_unit_ids=[ids["anchor"]], retrieval_budget=1_000)
    topic = await client.retrieve(session_id, "apple river", retrieval_budget=1_000)
    both = await client.retrieve(session_id, "apple river", task_id="T-6", retrieval_budget=1_000)
    gone = await client.retrieve(session_id, "apple river", task_id="T-none", retrieval_budget=1_000)

    assert (task.strategy, task.anchor_ids) == ("around_task", ("task:T-6",))
    path = by_key(task)["b"].graph_path
    assert path is not None
    assert path.unit_ids == ("task:T-6", ids["a"], ids["b"])
    assert (unit.strategy, unit.anchor_ids) == ("around_task", (ids["anchor"],))
    assert topic.strategy == "about_topic"
    assert topic.anchor_ids
    assert (both.strategy, both.anchor_ids) == ("around_task", ("task:T-6",))
    assert gone.strategy == "about_topic", "the answer says that another strategy ran than was asked for"
    assert gone.notices


# ---- N9: ownership --------------------------------------------------------------------------------------------------


async def test_N9_ownership_of_every_unit_is_tracked(
    service: Service, tenant: str, client: GraphsvcClient, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    other = await service.client(tenant, "agent-b")
    mine = await client.session(session_id, model="gpt-5").put(
        [UnitInput("decision", "mine"), UnitInput("decision", "mine too", model="claude-sonnet-4")]
    )
    theirs = await other.session("s-b", model="gemini-2.5-pro").put([UnitInput("decision", "theirs")])

    rows, _, _ = await graph_driver.execute_query(
        """
        MATCH (u:ContextUnit {tenant_id: $tenant})
        RETURN u.unit_id AS unit_id, u.agent_id AS agent, u.session_id AS session, u.model AS model
        """,
        tenant=tenant,
    )
    assert {row["unit_id"]: (row["agent"], row["session"], row["model"]) for row in rows} == {
        mine[0].unit_id: ("agent-a", session_id, "gpt-5"),
        mine[1].unit_id: ("agent-a", session_id, "claude-sonnet-4"),
        theirs[0].unit_id: ("agent-b", "s-b", "gemini-2.5-pro"),
    }
    (row,), _, _ = await graph_driver.execute_query(
        """
        RETURN COLLECT { MATCH (a:Agent {tenant_id: $tenant}) RETURN a.agent_id } AS agents,
          COLLECT { MATCH (s:Session {tenant_id: $tenant}) RETURN [s.agent_id, s.session_id] } AS sessions
        """,
        tenant=tenant,
    )
    assert sorted(row["agents"]) == ["agent-a", "agent-b"]
    assert sorted(row["sessions"]) == sorted([["agent-a", session_id], ["agent-b", "s-b"]])


async def test_N9_owner_fields_of_a_message_are_ignored(
    service: Service, stubs: Stubs, tenant: str, session_id: str
) -> None:
    key = await service.api_key(tenant, "agent-a")
    unit = core_pb2.ContextUnit(
        kind=core_pb2.CONTEXT_UNIT_KIND_DECISION,
        content="whose?",
        agent_id="agent-b",
        session_id="another",
        unit_id="aaaaaaaaaaaa",
        relevance_score=1.0,
        content_sha256="00",
        size_bytes=1,
    )
    request = context_service_pb2.PutUnitsRequest(request_id="r", session_id=session_id, units=[unit])
    written = await stubs.call("PutUnits", request, key)
    assert isinstance(written, context_service_pb2.PutUnitsResponse)
    unit_id = written.results[0].unit_id
    client = await service.client(tenant, "agent-a")
    (stored,) = (await client.get(session_id, [unit_id], revision=written.revision.token)).units

    assert unit_id != "aaaaaaaaaaaa"
    assert (stored.agent_id, stored.session_id) == ("agent-a", session_id)
    assert stored.size_bytes == len("whose?")


# ---- N10: private unless shared -------------------------------------------------------------------------------------


async def _visible(client: GraphsvcClient, session_id: str, unit_ids: list[str], *, revision: str = "") -> set[str]:
    """Which of the units a caller sees; every way to ask must agree."""
    found = await client.get(session_id, unit_ids, revision=revision)
    seen = {unit.unit_id for unit in found.units}
    assert seen | set(found.missing_ids) == set(unit_ids)
    listed = {unit.unit_id async for unit in client.list(session_id, revision=revision)} & set(unit_ids)
    by_topic = await client.retrieve(session_id, "zqxjkvsecret", retrieval_budget=50_000, revision=revision)
    by_anchor = await client.retrieve(
        session_id, anchor_unit_ids=unit_ids[:32], retrieval_budget=50_000, revision=revision
    )
    assert {one.unit_id for one in by_topic.candidates} & set(unit_ids) == seen
    assert {one.unit_id for one in by_anchor.candidates} & set(unit_ids) == seen
    assert set(by_anchor.anchor_ids) == seen
    assert listed == seen
    return seen


async def _put_kinds(client: GraphsvcClient, session_id: str) -> dict[str, str]:
    """One unit of each kind; ids by kind."""
    outcomes = await client.put(
        session_id, [UnitInput(kind, f"zqxjkvsecret of kind {kind}", unit_key=kind) for kind in sorted(KINDS)]
    )
    return {one.unit_key: one.unit_id for one in outcomes}


async def test_N10_units_are_private_to_agent_and_session(service: Service, tenant: str, session_id: str) -> None:
    owner = await service.client(tenant, "agent-a")
    ids = list((await _put_kinds(owner, session_id)).values())

    assert await _visible(owner, session_id, ids) == set(ids)
    assert await _visible(owner, "another session", ids) == set()
    for tenant_id, agent_id in ((tenant, "agent-b"), (await service.tenant(), "agent-a")):
        stranger = await service.client(tenant_id, agent_id)
        assert await _visible(stranger, session_id, ids) == set()
        answer = await stranger.retrieve(session_id, "zqxjkvsecret", retrieval_budget=1_000)
        assert answer.outcome is Outcome.NOTHING_PERMITTED
        assert answer.candidate_count == 0


async def test_N10_a_policy_that_names_no_kinds_shares_decisions_and_constraints(
    service: Service, tenant: str, session_id: str
) -> None:
    owner, grantee = await service.client(tenant, "agent-a"), await service.client(tenant, "agent-b")
    ids = await _put_kinds(owner, session_id)
    policy = await owner.create_policy(grantee_agent_id="agent-b")

    assert {kind.value for kind in policy.kinds} == {"decision", "constraint"}
    seen = await _visible(grantee, "s-b", list(ids.values()), revision=owner.last_revision)
    assert seen == {ids["decision"], ids["constraint"]}


async def test_N10_other_kinds_must_be_named(service: Service, tenant: str, session_id: str) -> None:
    owner, grantee = await service.client(tenant, "agent-a"), await service.client(tenant, "agent-b")
    ids = await _put_kinds(owner, session_id)
    await owner.create_policy(grantee_agent_id="agent-b", kinds=["observation", "tool_result"])

    seen = await _visible(grantee, "s-b", list(ids.values()), revision=owner.last_revision)
    assert seen == {ids["observation"], ids["tool_result"]}


async def test_N10_a_policy_holds_for_its_owner_grantee_and_sessions_only(
    service: Service, tenant: str, session_id: str
) -> None:
    owner = await service.client(tenant, "agent-a")
    grantee, third = await service.client(tenant, "agent-b"), await service.client(tenant, "agent-c")
    shared = list((await _put_kinds(owner, session_id)).values())
    kept = list((await _put_kinds(owner, f"{session_id}-kept")).values())
    await owner.create_policy(
        owner_session_id=session_id, grantee_agent_id="agent-b", grantee_session_id="s-b", kinds=sorted(KINDS)
    )

    async def seen(client: GraphsvcClient, at: str) -> set[str]:
        return await _visible(client, at, [*shared, *kept], revision=owner.last_revision)

    assert await seen(grantee, "s-b") == set(shared)
    assert await seen(grantee, "s-other") == set()
    assert await seen(third, "s-b") == set()
    assert await seen(owner, f"{session_id}-kept") == set(kept), "not even between sessions of one agent"


async def test_N10_wildcards_share_between_sessions_and_with_everybody(
    service: Service, tenant: str, session_id: str
) -> None:
    owner, other = await service.client(tenant, "agent-a"), await service.client(tenant, "agent-b")
    ids = await _put_kinds(owner, session_id)
    await owner.create_policy(kinds=["correction"])

    for client, at in ((owner, "another session"), (other, "s-b")):
        seen = await _visible(client, at, list(ids.values()), revision=owner.last_revision)
        assert seen == {ids["correction"]}


async def test_N10_a_policy_ends_when_it_expires_or_is_deleted(frozen: FrozenService, session_id: str) -> None:
    tenant = await frozen.service.tenant()
    owner, grantee = await frozen.service.client(tenant, "agent-a"), await frozen.service.client(tenant, "agent-b")
    ids = await _put_kinds(owner, session_id)
    policy = await owner.create_policy(kinds=["decision"])
    await owner.create_policy(kinds=["correction"], expires_time=frozen.clock.now() + timedelta(hours=1))

    async def seen() -> set[str]:
        return await _visible(grantee, "s-b", list(ids.values()), revision=owner.last_revision)

    assert await seen() == {ids["decision"], ids["correction"]}
    frozen.clock.moment += timedelta(hours=1)
    assert await seen() == {ids["decision"]}
    await owner.delete_policy(policy.policy_id)
    assert await seen() == set()


async def test_N10_only_an_admin_shares_what_others_own(service: Service, tenant: str, session_id: str) -> None:
    plain = frozenset({Role.READER, Role.WRITER})
    owner = await service.client(tenant, "agent-a", plain)
    greedy = await service.client(tenant, "agent-b", plain)
    admin = await service.client(tenant, "agent-c")
    ids = await _put_kinds(owner, session_id)

    for owner_agent_id in ("agent-a", "*"):
        with pytest.raises(GraphsvcCallError) as refused:
            await greedy.create_policy(owner_agent_id=owner_agent_id, grantee_agent_id="agent-b")
        assert (refused.value.code, refused.value.reason) == ("PERMISSION_DENIED", "ROLE_MISSING")
    await admin.create_policy(owner_agent_id="*", grantee_agent_id="agent-b", kinds=["decision"])
    seen = await _visible(greedy, "s-b", list(ids.values()), revision=admin.last_revision)
    assert seen == {ids["decision"]}


async def test_N10_no_policy_crosses_tenants(service: Service, tenant: str, session_id: str) -> None:
    owner = await service.client(tenant, "agent-a")
    ids = list((await _put_kinds(owner, session_id)).values())
    await owner.create_policy(owner_agent_id="*", kinds=sorted(KINDS))
    stranger = await service.client(await service.tenant(), "agent-a")
    await stranger.create_policy(owner_agent_id="*", kinds=sorted(KINDS))

    assert await _visible(stranger, session_id, ids) == set()


async def _among_the_invisible(
    service: Service, tenant: str, session_id: str
) -> tuple[list[RankedUnit], list[RankedUnit]]:
    """Candidates of the same question before and after others have written much that the caller cannot see."""
    owner, other = await service.client(tenant, "agent-a"), await service.client(tenant, "agent-b")
    stranger = await service.client(await service.tenant(), "agent-a")
    ids = await put_around(
        owner,
        session_id,
        [
            around("anchor", "a", 40),
            around("a", "b", 40),
            UnitInput("observation", "apple zqxjkvcommon", unit_key="c"),
            UnitInput("observation", "zqxjkvcommon river, river and more river zqxjkvrare", unit_key="d"),
        ],
    )
    # another agent of the tenant that was given the anchor may link to it
    await owner.create_policy(grantee_agent_id="agent-b", kinds=["decision"])
    # the question is asked in sessions that have delivered nothing
    await owner.create_policy(owner_session_id=session_id, grantee_agent_id="agent-a", kinds=sorted(KINDS))

    async def ask(at: str) -> list[RankedUnit]:
        answer = await owner.retrieve(
            at, "apple zqxjkvcommon zqxjkvrare river", anchor_unit_ids=[ids["anchor"]], retrieval_budget=2_000
        )
        assert answer.candidate_count == len(answer.candidates)
        assert not answer.partial
        return sorted(answer.candidates, key=lambda one: one.unit_id)

    before = await ask("before")
    for edge_type, count in (("dependency", 50), ("causation", 9)):
        edge = RelationInput(edge_type, target_id=ids["anchor"])
        await other.put("s-b", [around("", f"{edge_type}{n}", 20, relations=[edge]) for n in range(count)])
    await stranger.put("s", [UnitInput("observation", f"zqxjkvcommon apple {n}") for n in range(200)])
    return before, await ask("after")


async def test_N10_what_is_invisible_moves_no_count_or_path(service: Service, tenant: str, session_id: str) -> None:
    before, after = await _among_the_invisible(service, tenant, session_id)

    assert [(one.unit_id, one.graph_path, one.vector_score, one.cost, one.sources) for one in after] == [
        (one.unit_id, one.graph_path, one.vector_score, one.cost, one.sources) for one in before
    ]


async def test_N10_what_is_invisible_moves_no_score(service: Service, tenant: str, session_id: str) -> None:
    before, after = await _among_the_invisible(service, tenant, session_id)

    assert [(one.unit_id, one.full_text_score) for one in after] == [
        (one.unit_id, one.full_text_score) for one in before
    ]
    assert [(one.unit_id, one.topic_score) for one in after] == [(one.unit_id, one.topic_score) for one in before]
    assert [one.rank for one in after] == [one.rank for one in before]
