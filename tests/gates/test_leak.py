"""Gate N10: nothing tells a caller whether something it may not see exists, and nothing it may not see moves an answer.

Every RPC, by every wrong identity, in every way to name a foreign thing; made from the proto descriptors, so that a new
RPC or field without a case fails.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.message import Message

from graphsvc.client import EdgeInput, RelationInput, UnitInput
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import ContextUnitKind, unit_id_for
from graphsvc.server.interceptors import ROLES
from graphsvc.v1 import context_service_pb2 as cs
from graphsvc.v1 import core_pb2 as core
from graphsvc.v1 import retrieval_service_pb2 as rs
from tests.gates.leak import catalog
from tests.gates.leak.catalog import Names
from tests.gates.leak.world import (
    MEMBER,
    SAMPLES,
    SPARE,
    World,
    answered,
    build_world,
    comparable,
    foreign_and_absent,
)
from tests.gates.stubs import Refusal, Stubs

STRANGERS = ("no_key", "unknown_key", "wrong_secret")
CALLERS = (*STRANGERS, "other_tenant", "other_agent", "other_session")

CASES = [(method.name, naming) for method in catalog.methods() for naming in catalog.naming_fields(method)]

SAME_AGENT = {
    Names.SESSION: "an agent says itself in which of its sessions it works",
    Names.REQUEST: "request ids belong to the agent, whatever the session",
    Names.POLICY: "policies belong to the agent, whatever the session",
}
"""What is not foreign to another session of the same agent."""

FOR_ADMINS = {name.rpartition("/")[2] for name, role in ROLES.items() if role is Role.ADMIN}
"""What no caller here may do; gate B10 shows that an admin sees its own tenant's only."""


@pytest.fixture(scope="module")
async def world(frozen):
    async with Stubs(frozen.service.target) as stubs:
        yield await build_world(frozen.service, stubs)


def test_N10_every_request_field_is_classified():
    assert catalog.unclassified() == []


def test_N10_every_rpc_has_a_sample():
    assert {method.name for method in catalog.methods()} == set(SAMPLES)


def test_N10_every_rpc_has_a_case():
    assert max(case_number(*case) for case in CASES) < SPARE
    # What asks for nothing names nothing.
    without = {method.name for method in catalog.methods() if method.input_type.fields} - {name for name, _ in CASES}
    assert without == set()


async def test_N10_the_samples_are_answered(world: World):
    """So that a refusal in a case below is due to the foreign value, not to the sample."""
    for name in ("other_tenant", "other_agent", "other_session"):
        for method, sample in SAMPLES.items():
            answer = await answered(world.stubs, method, sample(world.callers[name]), world.callers[name].api_key)
            if method == "DeletePolicy":
                assert isinstance(answer, Refusal)
                assert answer.reason == "POLICY_NOT_FOUND"
            elif method in FOR_ADMINS:
                assert isinstance(answer, Refusal)
                assert answer.reason == "ROLE_MISSING"
            else:
                assert isinstance(answer, Message), (name, method, answer)


def case_number(method: str, naming: catalog.NamingField) -> int:
    """Number of a case among those whose field names the same kind of thing."""
    return [case for case in CASES if case[1].names is naming.names].index((method, naming))


async def ask(world: World, caller: str, method: str, naming: catalog.NamingField, value: str) -> str:
    me = world.callers[caller]
    request = SAMPLES[method](me)
    naming.put(request, value)
    values = [value]
    if naming.names is Names.UNIT_KEY:  # a key stands for an id in the caller's own scope, which a refusal may name
        values.append(unit_id_for(me.tenant_id, me.agent_id, getattr(request, "session_id", ""), value))
    return comparable(await answered(world.stubs, method, request, me.api_key), *values)


async def pair(
    world: World, caller: str, method: str, naming: catalog.NamingField, foreign: str, absent: str
) -> tuple[str, str]:
    """The answers to a foreign and to an absent value, over the same graph.

    Another process that writes to the same database moves the statistics of the full-text index; where the foreign
    value is answered differently after the absent one than before it, the pair is asked for again.
    """
    told = await ask(world, caller, method, naming, foreign)
    for _ in range(20):
        other = await ask(world, caller, method, naming, absent)
        if method != "Retrieve" or naming.names is Names.SESSION:  # a retrieval changes what its session is told next
            break
        again = await ask(world, caller, method, naming, foreign)
        if again == told:
            break
        told = again
    return told, other


@pytest.mark.parametrize("caller", STRANGERS)
@pytest.mark.parametrize("method", SAMPLES)
async def test_N10_without_a_valid_key_nothing_is_told(world: World, method: str, caller: str):
    expected = "CREDENTIALS_MISSING" if caller == "no_key" else "CREDENTIALS_INVALID"
    answers = {
        await ask(world, caller, method, naming, value)
        for name, naming in CASES
        if name == method
        for pair in foreign_and_absent(world, world.callers[caller], method, naming, case_number(method, naming))
        for value in pair
    }
    plain = SAMPLES[method](world.callers[caller])
    answers.add(comparable(await answered(world.stubs, method, plain, world.callers[caller].api_key)))
    assert len(answers) == 1
    assert expected in answers.pop()


@pytest.mark.parametrize("caller", ["other_tenant", "other_agent", "other_session"])
@pytest.mark.parametrize(("method", "naming"), CASES, ids=[f"{name}-{naming}" for name, naming in CASES])
async def test_N10_a_foreign_thing_answers_as_an_absent_one(
    world: World, method: str, naming: catalog.NamingField, caller: str
):
    if caller == "other_session" and _is_own(method, naming):
        return  # nothing foreign there: see SAME_AGENT
    for foreign, absent in foreign_and_absent(
        world, world.callers[caller], method, naming, case_number(method, naming)
    ):
        told, other = await pair(world, caller, method, naming, foreign, absent)
        assert told == other
        assert world.unit_ids[0] not in told
        assert world.unit_ids[1] not in told


async def test_N10_no_case_changed_the_foreign_world(world: World):
    assert await world.snapshot() == world.first_snapshot


def _is_own(method: str, naming: catalog.NamingField) -> bool:
    return naming.names in SAME_AGENT or (method == "ListPolicies" and naming.names is Names.PAGE)


# ---- foreign data moves nothing -------------------------------------------------------------------------------------

ME, EVE = "ann", "eve"
HERE = "main"
TOPICS = (
    "The login host refreshes its token every hour.",
    "Sessions end when the refresh token is revoked.",
    "The clock of the login host is synchronised.",
    "Deploys run after the nightly backup.",
    "Revoked tokens are kept for audit.",
)


BUDGET = rs.RetrievalBudget(retrieval_budget=3000)
READINGS: dict[str, Callable[[list[str]], tuple[str, Any]]] = {
    "topic": lambda ids: ("Retrieve", rs.RetrieveRequest(query="refresh token of the login host", budget=BUDGET)),
    "topic_with_anchor": lambda ids: (
        "Retrieve",
        rs.RetrieveRequest(query="refresh token", anchor_unit_ids=[ids[0]], max_hops=4, budget=BUDGET),
    ),
    "task": lambda ids: ("Retrieve", rs.RetrieveRequest(task_id="JOB", max_hops=4, budget=BUDGET)),
    "anchor": lambda ids: (
        "Retrieve",
        rs.RetrieveRequest(anchor_unit_ids=[ids[4]], wanted_edge_types=[core.EDGE_TYPE_CAUSATION], budget=BUDGET),
    ),
    "get": lambda ids: ("GetUnits", cs.GetUnitsRequest(unit_ids=ids)),
    "list": lambda ids: ("ListUnits", cs.ListUnitsRequest(page_size=1000, with_content=True)),
    "list_of_current": lambda ids: ("ListUnits", cs.ListUnitsRequest(page_size=1000, current_only=True)),
    "list_of_task": lambda ids: ("ListUnits", cs.ListUnitsRequest(page_size=1000, task_id="JOB")),
    "list_of_other_owners": lambda ids: ("ListUnits", cs.ListUnitsRequest(page_size=1000, owner_agent_id=EVE)),
}
"""Calls whose answers must not move, by name."""


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """Answers by reading, before and after there was foreign data."""

    before: dict[str, Any]
    after: dict[str, Any]


@pytest.fixture(scope="module")
async def readings(frozen) -> BeforeAndAfter:
    service = frozen.service
    tenant_id, elsewhere = await service.tenant(), await service.tenant()
    client = await service.client(tenant_id, ME, MEMBER)
    api_key = await service.api_key(tenant_id, ME, MEMBER)
    mine = client.session(HERE)
    put = await mine.put(
        [
            UnitInput("decision", text, unit_key=f"k{n}", task_id="JOB" if n == 1 else "")
            for n, text in enumerate(TOPICS)
        ]
    )
    ids = [one.unit_id for one in put]
    kinds = ("causation", "dependency", "provenance", "causation")
    await mine.link([EdgeInput(ids[n], RelationInput(kind, target_id=ids[n + 1])) for n, kind in enumerate(kinds)])
    # I see mine from all my sessions: each retrieval has a new one, as what was delivered before counts in a session.
    # Eve sees mine and may link to them; nobody may see hers.
    for grantee in (ME, EVE):
        await client.create_policy(owner_session_id=HERE, grantee_agent_id=grantee, kinds=list(ContextUnitKind))

    async with Stubs(service.target) as stubs:

        async def read() -> dict[str, Any]:
            answers: dict[str, Any] = {}
            for name, reading in READINGS.items():
                method, request = reading(ids)
                request.session_id = uuid.uuid4().hex
                answer = await answered(stubs, method, request, api_key)
                assert isinstance(answer, Message), answer
                answers[name] = json.loads(comparable(answer))
            return answers

        before = await read()
        copies = [
            UnitInput("decision", text, unit_key=f"copy-{n}", task_id="JOB", path="src/a.py")
            for n, text in enumerate(TOPICS * 4)
        ]
        eve = (await service.client(tenant_id, EVE, MEMBER)).session(HERE)
        await eve.put(copies)
        await (await service.client(elsewhere, ME, MEMBER)).put(HERE, copies)
        await client.put("side", copies)
        # a hub of mine, a shortcut between two of mine, a successor of mine: none of them for my eyes
        await eve.put(
            [
                UnitInput(
                    "observation", f"Note {n}, login host.", relations=[RelationInput("dependency", target_id=ids[1])]
                )
                for n in range(600)
            ]
        )
        shortcut = [RelationInput("causation", target_id=one) for one in (ids[0], ids[4])]
        await eve.put([UnitInput("decision", "Both at once.", relations=shortcut)])
        successor = [RelationInput("supersession", target_id=ids[2])]
        await eve.put([UnitInput("decision", "Instead of that.", relations=successor)])
        return BeforeAndAfter(before, await read())


SCORES = {"fullTextScore", "vectorScore", "topicScore", "value", "valueCostRatio", "contributions"}


@pytest.mark.parametrize("name", READINGS)
def test_N10_foreign_units_and_edges_move_no_path_or_count(readings: BeforeAndAfter, name: str):
    assert without_scores(readings.before[name]) == without_scores(readings.after[name])


@pytest.mark.parametrize("name", READINGS)
def test_N10_foreign_units_and_edges_move_no_score(readings: BeforeAndAfter, name: str):
    assert readings.before[name] == readings.after[name]


def without_scores(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without scores, and without the order that they give."""
    shown = {key: value for key, value in answer.items() if key not in ("payload", "units", "candidates")}
    shown["units"] = sorted(json.dumps(unit, sort_keys=True) for unit in answer.get("units", ()))
    shown["candidates"] = sorted(
        json.dumps({key: part for key, part in one.items() if key not in SCORES | {"rank", "detail"}}, sort_keys=True)
        for one in answer.get("candidates", ())
    )
    return shown
