"""Messages to domain types and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.tenancy import Policy, Principal
from graphsvc.domain.units import (
    ContextUnit,
    ContextUnitKind,
    Direction,
    EdgeType,
    EpistemicStatus,
    Relation,
    Tier,
    ToolCall,
    unit_id_for,
)
from graphsvc.ports import UnitFilter
from graphsvc.server import convert
from graphsvc.v1 import context_service_pb2 as cs
from graphsvc.v1 import core_pb2 as core
from graphsvc.v1 import retrieval_service_pb2 as rs

ME = Principal("t1", "a1", "s1", frozenset())
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
DECISION = core.CONTEXT_UNIT_KIND_DECISION


def put_of(**fields):
    return cs.PutUnitsRequest(
        request_id="r1", session_id="s1", units=[core.ContextUnit(**{"kind": DECISION, "content": "x", **fields})]
    )


def fault(call, *args):
    with pytest.raises(InvalidArgument) as caught:
        call(*args)
    return caught.value.reason, caught.value.metadata.get("field")


ENUMS = [
    convert.KINDS,
    convert.EDGE_TYPES,
    convert.DIRECTIONS,
    convert.EPISTEMIC_STATUSES,
    convert.TIERS,
    convert.WRITE_STATUSES,
    convert.OUTCOMES,
    convert.DISPOSITIONS,
    convert.SOURCES,
]


@pytest.mark.parametrize(
    ("mapping", "descriptor"),
    [
        (convert.KINDS, core.ContextUnitKind.DESCRIPTOR),
        (convert.EDGE_TYPES, core.EdgeType.DESCRIPTOR),
        (convert.DIRECTIONS, core.Direction.DESCRIPTOR),
        (convert.EPISTEMIC_STATUSES, core.EpistemicStatus.DESCRIPTOR),
        (convert.TIERS, core.Tier.DESCRIPTOR),
        (convert.WRITE_STATUSES, cs.WriteStatus.DESCRIPTOR),
        (convert.OUTCOMES, rs.RetrievalOutcome.DESCRIPTOR),
        (convert.DISPOSITIONS, rs.Disposition.DESCRIPTOR),
        (convert.SOURCES, rs.CandidateSource.DESCRIPTOR),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_closed_sets_are_the_same_in_both_worlds(mapping, descriptor):
    numbers = [value.number for value in descriptor.values if value.number]
    members = [mapping.to_domain(number, "f") for number in numbers]
    assert [mapping.to_proto(member) for member in members] == numbers
    assert set(members) == set(type(members[0]))


def test_a_plain_unit_gets_a_key_and_defaults():
    (draft,) = convert.unit_drafts(put_of(), ME)
    assert draft.unit_key == "r1#0"
    assert draft.timestamp is None
    assert draft.epistemic_status is EpistemicStatus.TENTATIVE
    assert draft.embedding is None
    assert draft.tool_call is None


def test_fields_that_the_service_keeps_are_ignored_in_writes():
    one = put_of(unit_key="k", unit_id="other", agent_id="x", tier=core.TIER_COLD, relevance_score=0.9)
    assert convert.unit_drafts(one, ME) == convert.unit_drafts(put_of(unit_key="k"), ME)


def test_every_written_field_arrives():
    stamp = Timestamp()
    stamp.FromDatetime(NOW)
    (draft,) = convert.unit_drafts(
        put_of(
            unit_key="k",
            kind=core.CONTEXT_UNIT_KIND_TOOL_RESULT,
            timestamp=stamp,
            task_step=4,
            task_id="T",
            epistemic_status=core.EPISTEMIC_STATUS_DISPUTED,
            provenance=["p"],
            relations=[core.Relation(target_key="other", edge_type=core.EDGE_TYPE_CAUSATION, role="r", weight=0.25)],
            path="a/b",
            model="m",
            pinned=True,
            tool_call=core.ToolCall(call_id="c", name="n"),
            vendor_state=b"v",
            embedding=[1, 2],
        ),
        ME,
    )
    assert (draft.unit_key, draft.kind, draft.timestamp) == ("k", ContextUnitKind.TOOL_RESULT, NOW)
    assert (draft.task_step, draft.task_id, draft.epistemic_status) == (4, "T", EpistemicStatus.DISPUTED)
    (relation,) = draft.relations
    assert (relation.edge_type, relation.target_key, relation.target_id) == (EdgeType.CAUSATION, "other", "")
    assert (relation.role, relation.weight) == ("r", 0.25)
    assert draft.tool_call == ToolCall("c", "n", "{}")
    assert (draft.provenance, draft.path, draft.model, draft.pinned) == (("p",), "a/b", "m", True)
    assert (draft.vendor_state, draft.embedding) == (b"v", (1.0, 2.0))


def test_an_unset_weight_is_one_and_a_zero_weight_is_zero():
    relation = core.Relation(target_key="o", edge_type=core.EDGE_TYPE_CAUSATION)
    assert convert.unit_drafts(put_of(relations=[relation]), ME)[0].relations[0].weight == 1.0
    relation.weight = 0.0
    assert convert.unit_drafts(put_of(relations=[relation]), ME)[0].relations[0].weight == 0.0


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"kind": 0}, ErrorReason.FIELD_REQUIRED, "units[0].kind"),
        ({"kind": 99}, ErrorReason.FIELD_INVALID, "units[0].kind"),
        ({"epistemic_status": 99}, ErrorReason.FIELD_INVALID, "units[0].epistemic_status"),
        ({"unit_key": "a\x1fb"}, ErrorReason.FIELD_INVALID, "units[0].unit_key"),
        ({"unit_key": "é" * 129}, ErrorReason.FIELD_TOO_LARGE, "units[0].unit_key"),
        ({"timestamp": Timestamp(seconds=10**15)}, ErrorReason.FIELD_INVALID, "units[0].timestamp"),
        ({"timestamp": Timestamp(nanos=-1)}, ErrorReason.FIELD_INVALID, "units[0].timestamp"),
        ({"relations": [core.Relation(edge_type=1)]}, ErrorReason.FIELD_REQUIRED, "units[0].relations[0].target_id"),
        (
            {"relations": [core.Relation(target_id="", edge_type=1)]},
            ErrorReason.FIELD_REQUIRED,
            "units[0].relations[0].target_id",
        ),
        (
            {"relations": [core.Relation(target_id="x")]},
            ErrorReason.FIELD_REQUIRED,
            "units[0].relations[0].edge_type",
        ),
        (
            {"unit_key": "k", "relations": [core.Relation(target_key="k", edge_type=1)]},
            ErrorReason.SELF_LOOP,
            "units[0].relations[0].target_key",
        ),
        (
            {
                "unit_key": "k",
                "relations": [core.Relation(target_id=unit_id_for("t1", "a1", "s1", "k"), edge_type=1)],
            },
            ErrorReason.SELF_LOOP,
            "units[0].relations[0].target_id",
        ),
        (
            {"tool_call": core.ToolCall(call_id="c", name="n", arguments_json="[]")},
            ErrorReason.FIELD_INVALID,
            "units[0].tool_call.arguments_json",
        ),
        (
            {"tool_call": core.ToolCall(call_id="c", name="n", arguments_json='{"a": NaN}')},
            ErrorReason.FIELD_INVALID,
            "units[0].tool_call.arguments_json",
        ),
        (
            {"tool_call": core.ToolCall(call_id="c", name="n", arguments_json="[" * 60_000)},
            ErrorReason.FIELD_INVALID,
            "units[0].tool_call.arguments_json",
        ),
        (
            {"tool_call": core.ToolCall(call_id="c", name="n", arguments_json='"' + "x" * 70_000 + '"')},
            ErrorReason.FIELD_TOO_LARGE,
            "units[0].tool_call.arguments_json",
        ),
        ({"tool_call": core.ToolCall(name="n")}, ErrorReason.FIELD_REQUIRED, "units[0].tool_call.call_id"),
        ({"embedding": [0.0] * 4097}, ErrorReason.EMBEDDING_INVALID, "units[0].embedding"),
    ],
)
def test_malformed_units_name_the_field(fields, reason, field):
    assert fault(convert.unit_drafts, put_of(**fields), ME) == (reason, field)


def test_batches_have_limits():
    assert fault(convert.unit_drafts, cs.PutUnitsRequest(), ME) == (ErrorReason.FIELD_REQUIRED, "units")
    many = cs.PutUnitsRequest(units=[core.ContextUnit()] * 1001)
    assert fault(convert.unit_drafts, many, ME) == (ErrorReason.FIELD_TOO_LARGE, "units")
    assert fault(convert.unit_ids, []) == (ErrorReason.FIELD_REQUIRED, "unit_ids")
    assert fault(convert.unit_ids, ["x"] * 1001) == (ErrorReason.FIELD_TOO_LARGE, "unit_ids")
    assert fault(convert.unit_ids, ["x", ""]) == (ErrorReason.FIELD_REQUIRED, "unit_ids[1]")
    assert fault(convert.edge_drafts, [], ME) == (ErrorReason.FIELD_REQUIRED, "edges")


def test_ids_keep_their_order_and_come_once():
    assert convert.unit_ids(["b", "a", "b"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ErrorReason.FIELD_REQUIRED),
        ("r" * 129, ErrorReason.FIELD_TOO_LARGE),
        ("a\nb", ErrorReason.FIELD_INVALID),
    ],
)
def test_request_id_is_checked(text, reason):
    assert fault(convert.request_id, text) == (reason, "request_id")


def test_page_size():
    assert (convert.page_size(0), convert.page_size(1), convert.page_size(1000)) == (100, 1, 1000)
    assert fault(convert.page_size, -1) == (ErrorReason.FIELD_INVALID, "page_size")
    assert fault(convert.page_size, 1001) == (ErrorReason.FIELD_INVALID, "page_size")


def test_a_fingerprint_is_the_requests():
    one, two = put_of(), put_of(content="y")
    assert convert.fingerprint(one) == convert.fingerprint(put_of()) != convert.fingerprint(two)
    delete = cs.DeleteUnitsRequest(request_id="r", session_id="s")
    link = cs.LinkUnitsRequest(request_id="r", session_id="s")
    assert delete.SerializeToString() == link.SerializeToString()
    assert convert.fingerprint(delete) != convert.fingerprint(link)


def test_filters_name_the_list():
    where = convert.unit_filter(
        cs.ListUnitsRequest(
            kinds=[DECISION], owner_agent_id="a", owner_session_id="s", task_id="t", path_prefix="p", current_only=True
        )
    )
    assert where == UnitFilter(frozenset({ContextUnitKind.DECISION}), "a", "s", "t", "p", False, True)
    assert convert.listing_of(where) != convert.listing_of(UnitFilter())


def query_of(**fields):
    return rs.RetrieveRequest(**{"query": "q", "budget": rs.RetrievalBudget(retrieval_budget=0), **fields})


def test_a_retrieval_budget_of_zero_is_not_unset():
    query = convert.retrieval_query(query_of())
    assert query.budget.retrieval_budget == 0
    assert query.budget.total_step_budget is None
    assert query.max_hops == 3


def test_following_an_edge_type_twice_is_both_ways():
    follow = [
        rs.EdgeFilter(edge_type=core.EDGE_TYPE_CAUSATION, direction=core.DIRECTION_OUTGOING),
        rs.EdgeFilter(edge_type=core.EDGE_TYPE_CAUSATION, direction=core.DIRECTION_INCOMING),
        rs.EdgeFilter(edge_type=core.EDGE_TYPE_PROVENANCE, direction=core.DIRECTION_INCOMING),
        rs.EdgeFilter(edge_type=core.EDGE_TYPE_DEPENDENCY),
    ]
    assert convert.retrieval_query(query_of(follow=follow)).directions == {
        EdgeType.CAUSATION: Direction.BOTH,
        EdgeType.PROVENANCE: Direction.INCOMING,
        EdgeType.DEPENDENCY: Direction.BOTH,
    }


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"budget": None}, ErrorReason.FIELD_REQUIRED, "budget"),
        (
            {"budget": rs.RetrievalBudget(retrieval_budget=1, harness_overhead=1)},
            ErrorReason.FIELD_INVALID,
            "budget.harness_overhead",
        ),
        (
            {"budget": rs.RetrievalBudget(retrieval_budget=1, reasoning_reserve_ratio=0.5)},
            ErrorReason.FIELD_INVALID,
            "budget.reasoning_reserve_ratio",
        ),
        ({"task_step": -1}, ErrorReason.FIELD_INVALID, "task_step"),
        ({"anchor_unit_ids": ["a", ""]}, ErrorReason.FIELD_REQUIRED, "anchor_unit_ids[1]"),
        ({"follow": [rs.EdgeFilter()]}, ErrorReason.FIELD_REQUIRED, "follow[0].edge_type"),
        ({"wanted_edge_types": [77]}, ErrorReason.FIELD_INVALID, "wanted_edge_types[0]"),
        ({"kinds": [0]}, ErrorReason.FIELD_REQUIRED, "kinds[0]"),
        ({"as_of": Timestamp(seconds=-(10**15))}, ErrorReason.FIELD_INVALID, "as_of"),
        ({"query_embedding": [0.0] * 5000}, ErrorReason.EMBEDDING_INVALID, "query_embedding"),
    ],
)
def test_malformed_queries_name_the_field(fields, reason, field):
    assert fault(convert.retrieval_query, query_of(**fields)) == (reason, field)


def test_described_candidates():
    assert convert.described_candidates(query_of()) == 100
    assert convert.described_candidates(query_of(max_described_candidates=0)) == 0
    for number in (-1, 1001):
        found = fault(convert.described_candidates, query_of(max_described_candidates=number))
        assert found == (ErrorReason.FIELD_INVALID, "max_described_candidates")


def test_a_unit_is_answered_whole():
    unit = ContextUnit(
        unit_id="u",
        unit_key="k",
        tenant_id="t1",
        agent_id="a1",
        session_id="s1",
        kind=ContextUnitKind.TOOL_RESULT,
        content="c",
        timestamp=NOW,
        created_time=NOW,
        task_step=2,
        task_id="T",
        epistemic_status=EpistemicStatus.REFUTED,
        provenance=("p", "q"),
        relevance_score=0.5,
        tier=Tier.COLD,
        relations=(Relation("v", EdgeType.SUPERSESSION, "r", 0.5),),
        path="a/b",
        model="m",
        pinned=True,
        tool_call=ToolCall("c", "n", "{}"),
        vendor_state=b"v",
        content_sha256="ff",
        size_bytes=1,
        token_counts={"o200k_base": 3},
    )
    message = convert.unit_message(unit, superseded_by="w")
    unset = {field.name for field in message.DESCRIPTOR.fields} - {field.name for field, _ in message.ListFields()}
    assert unset == {"embedding"}
    assert message.timestamp.ToDatetime(UTC) == NOW
    assert message.relations[0].target_id == "v"
    assert message.superseded_by == "w"


def test_a_policy_for_everybody_is_written_out():
    policy = Policy("p", "t1", "", "s", "", "", frozenset({ContextUnitKind.DECISION}), NOW, "a1")
    message = convert.policy_message(policy)
    assert message.owner_agent_id == "*"
    assert not message.HasField("expires_time")
    assert list(message.kinds) == [DECISION]
