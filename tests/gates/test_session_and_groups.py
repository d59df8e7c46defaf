"""Gates of selection-budgeted retrieval that need a session's past or several units: B4, B7, B11, atomic groups."""

from __future__ import annotations

import neo4j
import pytest

from graphsvc.client import GraphsvcCallError, GraphsvcClient, RelationInput, Retrieval, ToolCall, UnitInput
from graphsvc.domain.candidates import CandidateSource, Disposition
from tests.gates.independent_tokens import IndependentTokens
from tests.gates.worlds import around, blocks_of, by_key, put_around, text_of
from tests.support.service import Service

AMPLE = 100_000


@pytest.fixture
async def client(service: Service) -> GraphsvcClient:
    """An agent of a tenant of its own."""
    return await service.client(await service.tenant(), "agent-a")


# ---- B4: the harness's texts and the projection ---------------------------------------------------------------------


async def test_B4_texts_of_the_harness_are_counted(
    client: GraphsvcClient, session_id: str, tokens: IndependentTokens
) -> None:
    ids = await put_around(client, session_id, [around("anchor", "a", 30)])
    system, tools = "You are careful. " * 40, '{"name": "search", "parameters": {"query": {"type": "string"}}}'
    answer = await client.retrieve(
        session_id,
        anchor_unit_ids=[ids["anchor"]],
        total_step_budget=8_000,
        harness_overhead=100,
        harness_texts=[system, tools],
    )
    counted = tokens.count(system, answer.encoding) + tokens.count(tools, answer.encoding)
    assert answer.ledger.harness_overhead == 100 + counted
    assert answer.ledger.retrieval_budget == 8_000 - 3_200 - 100 - counted


async def test_B4_a_falling_projection_tightens_the_threshold(client: GraphsvcClient, session_id: str) -> None:
    units = [around("anchor", "near", 60), around("near", "far", 60), around("far", "farther", 60)]
    ids = await put_around(client, session_id, [*units, *(around("farther", f"u{n}", 60) for n in range(12))])

    async def ask(remaining: int) -> Retrieval:
        return await client.retrieve(
            session_id,
            anchor_unit_ids=[ids["anchor"]],
            total_step_budget=4_000,
            task_step=5,
            expected_steps=15,
            session_tokens_remaining=remaining,
        )

    enough, short, out = await ask(40_000), await ask(10_000), await ask(0)
    assert [one.ledger.threshold_factor for one in (enough, short, out)] == [1.0, 4.0, 10.0]
    counts = [one.ledger.candidates_selected for one in (enough, short, out)]
    assert counts[0] > counts[2] >= 0
    assert counts == sorted(counts, reverse=True)


async def test_B4_a_projection_is_checked(client: GraphsvcClient, session_id: str) -> None:
    ids = await put_around(client, session_id, [around("anchor", "a", 30)])
    for wrong, field in (
        ({"total_step_budget": 4_000, "session_tokens_remaining": 10}, "budget.expected_steps"),
        ({"total_step_budget": 4_000, "expected_steps": -1}, "budget.expected_steps"),
        (
            {"total_step_budget": 4_000, "expected_steps": 5, "session_tokens_remaining": -1},
            "budget.session_tokens_remaining",
        ),
        ({"retrieval_budget": 400, "expected_steps": 5}, "budget.expected_steps"),
        ({"retrieval_budget": 400, "harness_texts": ["x"]}, "budget.harness_texts"),
    ):
        with pytest.raises(GraphsvcCallError) as refused:
            await client.retrieve(session_id, anchor_unit_ids=[ids["anchor"]], **wrong)  # type: ignore[arg-type]
        assert field in refused.value.field_violations


# ---- B11: deferral --------------------------------------------------------------------------------------------------


async def test_B11_five_deferrals_in_a_row_lower_the_value_in_the_session_for_good(
    client: GraphsvcClient, session_id: str, graph_driver: neo4j.AsyncDriver
) -> None:
    ids = await put_around(
        client, session_id, [*(around("anchor", f"u{n:02}", 100 + n) for n in range(11)), around("anchor", "u11", 600)]
    )
    large = ids["u11"]

    async def value_of_large(step: int, budget: int = 400) -> tuple[float, Disposition]:
        answer = await client.retrieve(
            session_id, anchor_unit_ids=[ids["anchor"]], retrieval_budget=budget, task_step=step
        )
        one = by_key(answer)["u11"]
        return one.value, one.disposition

    values: list[float] = []
    for step in range(1, 6):
        value, disposition = await value_of_large(step)
        values.append(value)
        # Twice in a step is one step.
        _, again = await value_of_large(step)
        assert disposition is again is Disposition.OVER_BUDGET
    lowered, _ = await value_of_large(6)
    assert lowered < 0.8 * min(values)
    later, disposition = await value_of_large(7, budget=AMPLE)
    assert later == pytest.approx(lowered, rel=0.05), "for good"
    assert disposition is Disposition.SELECTED, "deferred is not deleted"
    (row,), _, _ = await graph_driver.execute_query(
        "MATCH (s:Session {session_id: $session})-[l:LOWERS]->(u {unit_id: $unit}) "
        "RETURN count(l) AS count, l.retrieval_id AS retrieval_id",
        session=session_id,
        unit=large,
    )
    assert row["count"] == 1


async def test_B11_another_session_is_not_lowered_and_a_delivery_breaks_the_row(
    client: GraphsvcClient, session_id: str
) -> None:
    ids = await put_around(
        client, session_id, [*(around("anchor", f"u{n:02}", 100 + n) for n in range(11)), around("anchor", "u11", 600)]
    )
    await client.create_policy(kinds=["observation", "decision"])

    async def ask(session: str, budget: int) -> Retrieval:
        return await client.retrieve(session, anchor_unit_ids=[ids["anchor"]], retrieval_budget=budget)

    for budget in (400, 400, 400, 400, AMPLE, 400, 400, 400, 400):
        broken = await ask(session_id, budget)
    assert "deferred_in_session" not in _parts(broken, "u11"), "the delivery in between broke the row"
    await ask(session_id, 400)
    assert _parts(await ask(session_id, 400), "u11")["deferred_in_session"] == 1.0
    assert "deferred_in_session" not in _parts(await ask(f"{session_id}-other", 400), "u11")


def _parts(answer: Retrieval, key: str) -> dict[str, float]:
    """Features that count against or for a candidate, with their raw values, those that do not apply left out."""
    return {
        part.feature: part.raw
        for part in by_key(answer)[key].contributions
        if part.feature != "deferred_in_session" or part.raw
    }


# ---- atomic groups --------------------------------------------------------------------------------------------------


async def test_B7_what_answers_one_tool_call_is_one_item(
    client: GraphsvcClient, session_id: str, tokens: IndependentTokens
) -> None:
    call = ToolCall("call-1", "search", "{}")
    units = [
        UnitInput("tool_result", text_of("call", 80), unit_key="call", tool_call=call, task_step=1),
        around("anchor", "result", 150, kind="tool_result", tool_call=call, task_step=2),
        *(around("anchor", f"u{n:02}", 400) for n in range(10)),
    ]
    ids = await put_around(client, session_id, units)
    for budget in (200, 230, 260, 300, 400, 600, 5_000):
        answer = await client.retrieve(session_id, anchor_unit_ids=[ids["anchor"]], retrieval_budget=budget)
        delivered = list(blocks_of(answer.payload))
        assert (ids["call"] in delivered) == (ids["result"] in delivered), budget
        assert tokens.count(answer.payload, answer.encoding) <= budget
    assert delivered.index(ids["call"]) + 1 == delivered.index(ids["result"]), "side by side, the call first"
    found = by_key(answer)
    assert found["result"].companion_unit_ids == (ids["call"],)
    assert found["call"].companion_unit_ids == (ids["result"],)


async def test_B7_a_chunk_goes_in_with_its_header_and_the_header_may_go_alone(
    client: GraphsvcClient, session_id: str
) -> None:
    header = UnitInput("state_snapshot", "import os, sys\nlogger = logging.getLogger()", unit_key="header", path="a.py")
    chunk = UnitInput(
        "state_snapshot",
        "def rotate(certificate):\n    logger.info('rotating the gateway certificate')",
        unit_key="chunk",
        path="a.py",
        relations=[RelationInput("provenance", target_key="header", role="header")],
    )
    fillers = [UnitInput("observation", text_of(f"filler{n}", 60), unit_key=f"f{n}") for n in range(12)]
    await client.put(session_id, [header, chunk, *fillers])
    answer = await client.retrieve(session_id, "rotate the gateway certificate", retrieval_budget=400)
    keys = [unit.unit_key for unit in answer.units]
    assert keys[:2] == ["header", "chunk"]
    alone = await client.retrieve(session_id, "import os sys", retrieval_budget=200)
    assert by_key(alone)["header"].companion_unit_ids == ()


# ---- sources --------------------------------------------------------------------------------------------------------


async def test_B2_candidates_come_from_topic_edges_turns_and_the_session(
    client: GraphsvcClient, session_id: str
) -> None:
    await client.put(
        session_id,
        [
            UnitInput("observation", "Who rotates the gateway certificate?", unit_key="question", task_step=10),
            UnitInput("observation", "Mira does, every March.", unit_key="reply", task_step=11),
            UnitInput("observation", text_of("linked", 20), unit_key="linked", task_step=30),
            UnitInput(
                "observation",
                "The gateway certificate is stored in the vault.",
                unit_key="mentions",
                task_step=40,
                relations=[RelationInput("dependency", target_key="linked", role="mentions")],
            ),
            UnitInput("observation", text_of("newest", 20), unit_key="newest", task_step=50),
        ],
    )
    answer = await client.retrieve(session_id, "gateway certificate", retrieval_budget=AMPLE)
    found = by_key(answer)
    assert found["question"].sources >= {CandidateSource.FULL_TEXT, CandidateSource.SESSION}
    assert CandidateSource.GRAPH in found["reply"].sources, "next to the question in turn order"
    assert CandidateSource.GRAPH in found["linked"].sources
    assert CandidateSource.SESSION in found["newest"].sources
    assert found["reply"].value > found["newest"].value, "a turn beside a hit is worth more than one far away"
    assert found["linked"].value > found["newest"].value
