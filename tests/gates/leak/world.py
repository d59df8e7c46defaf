"""A foreign world, the callers that may not see it, and the requests they send.

Everything in the foreign world has a name that a caller could guess or have been told. Each caller has a world of its
own with the same names where names are free, so that a mix-up would show.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from graphsvc.client import ClientSession, EdgeInput, GraphsvcClient, RelationInput, UnitInput
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.graph.tenant_store import load_service_secret
from graphsvc.server.tokens import TokenSigner
from graphsvc.v1 import context_service_pb2 as cs
from graphsvc.v1 import core_pb2 as core
from graphsvc.v1 import predictor_service_pb2 as ps
from graphsvc.v1 import registry_service_pb2 as gs
from graphsvc.v1 import retrieval_service_pb2 as rs
from tests.gates.leak.catalog import Names, NamingField
from tests.gates.stubs import Refusal, Stubs
from tests.support.service import Service

OWNER, OTHER_OWNER, NOBODY = "ann", "catherine-7", "nobody-7"
SESSION = "main"
TASK, PATH = "FOREIGN-1", "src/foreign/token.py"
TEXT = "The token refresh fails when the clock of the login host is late."
OWN_TEXT = "Login keeps the refresh token for an hour."
SCRATCH = "scratch"
SPARE = 24
"""Foreign units with a key, a request_id and a session of their own: a case that writes uses one up."""
ABSENT = "aaaaaaaaaaaa"
"""Names no unit and no policy."""
MEMBER = frozenset({Role.READER, Role.WRITER})
"""An admin may manage every policy of its tenant, so the callers are none."""


def random_id() -> str:
    """An id in the form of a unit's that names nothing."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(12))


@dataclass(slots=True)
class Caller:
    """Who calls, from its own session.

    Attributes:
        api_key: None: sends none.
    """

    name: str
    api_key: str | None
    tenant_id: str = ""
    agent_id: str = ""
    session_id: str = SESSION
    unit_ids: tuple[str, ...] = ()
    retrieval_id: str = "none"
    policy_id: str = "none"
    revision: str = ""


@dataclass(slots=True)
class World:
    """The foreign world and its callers."""

    service: Service
    stubs: Stubs
    tenant_id: str
    owner: ClientSession
    unit_ids: tuple[str, ...]
    retrieval_id: str
    policy_id: str
    page_tokens: dict[str, str]
    signer: TokenSigner
    callers: dict[str, Caller] = field(default_factory=dict)
    first_snapshot: list[Any] = field(default_factory=list)

    async def snapshot(self) -> list[Any]:
        """What is foreign, as its owner sees it: units with edges, policies, the retrieval."""
        listed = self.owner.list(owner_agent_id=OWNER, owner_session_id=SESSION, with_content=True, page_size=1000)
        units = [unit async for unit in listed]
        policies = [one async for one in self.owner.client.list_policies() if one.grantee_session_id in ("z0", "z1")]
        return [units, policies, await self.owner.explain(self.retrieval_id)]


async def _furnish(client: GraphsvcClient, session_id: str, text: str, **fields: Any) -> tuple[str, ...]:
    """Ids of two linked units."""
    session = client.session(session_id)
    put = await session.put(
        [
            UnitInput("decision", text, unit_key="a", **fields),
            UnitInput("observation", f"Seen: {text}", unit_key="b", **fields),
        ]
    )
    first, second = (one.unit_id for one in put)
    await session.link([EdgeInput(first, RelationInput("dependency", target_id=second))])
    return first, second


async def build_world(service: Service, stubs: Stubs) -> World:
    """The foreign world in a tenant of its own, and the callers with theirs."""
    tenant_id, elsewhere = await service.tenant(), await service.tenant()
    client = await service.client(tenant_id, OWNER, MEMBER)
    owner = client.session(SESSION)
    unit_ids = await _furnish(client, SESSION, TEXT, path=PATH, task_id=TASK)
    await owner.link([EdgeInput(unit_ids[1], RelationInput("supersession", target_id=unit_ids[0]))])
    for number in range(SPARE):
        await owner.put([UnitInput("decision", TEXT, unit_key=f"foreign-{number}")], request_id=f"request-{number}")
        await client.put(f"vault-{number}", [UnitInput("constraint", TEXT, path=PATH)])
    await (await service.client(tenant_id, OTHER_OWNER, MEMBER)).put(SESSION, [UnitInput("decision", TEXT, path=PATH)])
    retrieval = await owner.retrieve("token refresh", retrieval_budget=2000)
    policies = [await client.create_policy(grantee_agent_id="zoe", grantee_session_id=f"z{n}") for n in range(2)]
    stores = service.serving.stores
    world = World(
        service=service,
        stubs=stubs,
        tenant_id=tenant_id,
        owner=owner,
        unit_ids=unit_ids,
        retrieval_id=retrieval.retrieval_id,
        policy_id=policies[0].policy_id,
        page_tokens={},
        signer=TokenSigner(await load_service_secret(stores.driver, stores.catalog)),
    )
    owner_key = await service.api_key(tenant_id, OWNER, MEMBER)
    for method, request in (
        ("ListUnits", cs.ListUnitsRequest(session_id=SESSION, page_size=1)),
        ("ListPolicies", gs.ListPoliciesRequest(page_size=1)),
    ):
        page: Any = await answered(stubs, method, request, owner_key)
        assert isinstance(page, Message), page
        world.page_tokens[method] = page.next_page_token
    key_id = owner_key.split("_")[1]
    for caller in (
        Caller("no_key", None),
        Caller("unknown_key", f"gsk_{random_id()[:10]}_{random_id()}"),
        Caller("wrong_secret", f"gsk_{key_id}_{random_id()}"),
    ):
        world.callers[caller.name] = caller
    for name, tenant, agent, session_id in (
        ("other_tenant", elsewhere, OWNER, SESSION),
        ("other_agent", tenant_id, "bob", SESSION),
        ("other_session", tenant_id, OWNER, "side"),
    ):
        world.callers[name] = await _caller(service, name, tenant, agent, session_id)
    world.first_snapshot = await world.snapshot()
    return world


async def _caller(service: Service, name: str, tenant_id: str, agent_id: str, session_id: str) -> Caller:
    client = await service.client(tenant_id, agent_id, MEMBER)
    own = await _furnish(client, session_id, OWN_TEXT, path="src/own.py", task_id="OWN-1")
    # its own units are seen from all sessions of its own: retrievals in a new session each are comparable, since what
    # was delivered before in a session counts there
    policy = await client.create_policy(
        owner_session_id=session_id, grantee_agent_id=agent_id, kinds=list(ContextUnitKind)
    )
    retrieval = await client.session(session_id).retrieve("refresh token", retrieval_budget=2000)
    return Caller(
        name=name,
        api_key=await service.api_key(tenant_id, agent_id, MEMBER),
        tenant_id=tenant_id,
        agent_id=agent_id,
        session_id=session_id,
        unit_ids=own,
        retrieval_id=retrieval.retrieval_id,
        policy_id=policy.policy_id,
        revision=client.last_revision,
    )


# ---- requests -------------------------------------------------------------------------------------------------------


def _own(caller: Caller, place: int) -> str:
    return caller.unit_ids[place] if caller.unit_ids else ABSENT


def _put(caller: Caller) -> Message:
    relation = core.Relation(target_id=_own(caller, 0), edge_type=core.EDGE_TYPE_PROVENANCE)
    unit = core.ContextUnit(
        unit_key=uuid.uuid4().hex, kind=core.CONTEXT_UNIT_KIND_OBSERVATION, content="Noted.", relations=[relation]
    )
    # in a session of its own, which nothing else reads: the other samples' answers stay as they are
    return cs.PutUnitsRequest(request_id=uuid.uuid4().hex, session_id=SCRATCH, units=[unit])


def _edge(caller: Caller) -> cs.UnitEdge:
    role = uuid.uuid4().hex
    relation = core.Relation(target_id=_own(caller, 1), edge_type=core.EDGE_TYPE_PROVENANCE, role=role)
    return cs.UnitEdge(source_id=_own(caller, 0), relation=relation)


SAMPLES: dict[str, Callable[[Caller], Message]] = {
    "PutUnits": _put,
    "GetUnits": lambda me: cs.GetUnitsRequest(session_id=me.session_id, unit_ids=[_own(me, 0)]),
    "ListUnits": lambda me: cs.ListUnitsRequest(session_id=me.session_id, page_size=1000),
    "DeleteUnits": lambda me: cs.DeleteUnitsRequest(
        request_id=uuid.uuid4().hex, session_id=me.session_id, unit_ids=[ABSENT]
    ),
    "LinkUnits": lambda me: cs.LinkUnitsRequest(
        request_id=uuid.uuid4().hex, session_id=me.session_id, edges=[_edge(me)]
    ),
    "UnlinkUnits": lambda me: cs.UnlinkUnitsRequest(
        request_id=uuid.uuid4().hex, session_id=me.session_id, edges=[_edge(me)]
    ),
    "Retrieve": lambda me: rs.RetrieveRequest(
        session_id=uuid.uuid4().hex,
        query="token refresh",
        anchor_unit_ids=[_own(me, 1)],
        budget=rs.RetrievalBudget(retrieval_budget=2000),
    ),
    "ExplainRetrieval": lambda me: rs.ExplainRetrievalRequest(session_id=me.session_id, retrieval_id=me.retrieval_id),
    # the same report each time, which changes nothing; what retrievals of a new session are told does not depend on it
    "ReportOutcome": lambda me: rs.ReportOutcomeRequest(
        session_id=me.session_id,
        retrieval_id=me.retrieval_id,
        request_id=uuid.uuid4().hex,
        output=f"Refresh it as [{_own(me, 0)}] says.",
    ),
    "GetPrincipal": lambda me: gs.GetPrincipalRequest(),
    "CreatePolicy": lambda me: gs.CreatePolicyRequest(
        request_id=uuid.uuid4().hex,
        policy=gs.Policy(owner_session_id="nowhere", grantee_agent_id="zoe", kinds=[core.CONTEXT_UNIT_KIND_DECISION]),
    ),
    "ListPolicies": lambda me: gs.ListPoliciesRequest(page_size=1000),
    "DeletePolicy": lambda me: gs.DeletePolicyRequest(request_id=uuid.uuid4().hex, policy_id=ABSENT),
    "RecalibratePredictor": lambda me: ps.RecalibratePredictorRequest(request_id=uuid.uuid4().hex),
    "ListPredictors": lambda me: ps.ListPredictorsRequest(),
    "RollBackPredictor": lambda me: ps.RollBackPredictorRequest(request_id=uuid.uuid4().hex),
}
"""A request that succeeds, or names nothing, and leaves the caller's world as it was for the next one."""


def foreign_and_absent(
    world: World, caller: Caller, method: str, naming: NamingField, case: int
) -> list[tuple[str, str]]:
    """Pairs of values: one names a foreign thing, the other none; both have the same form.

    Args:
        world: the foreign world.
        caller: who will send them.
        method: the RPC.
        naming: the field.
        case: number of the case among those whose field names the same, under SPARE.
    """
    bookmarks = ("FB:kcwQAAAAAAAAAAAAAAAAAAAAAckAAJA=",)
    flipped = "".join(reversed(world.page_tokens.get(method, "")))
    pairs: dict[Names, list[tuple[str, str]]] = {
        Names.UNIT: [(unit_id, random_id()) for unit_id in world.unit_ids],
        Names.UNIT_KEY: [(f"foreign-{case}", f"absent-{case}-{uuid.uuid4().hex}")],
        Names.RETRIEVAL: [(world.retrieval_id, "r" + random_id() + "abc")],
        Names.POLICY: [(world.policy_id, "p" + random_id()[1:])],
        Names.PAGE: [(world.page_tokens.get(method, ""), flipped)],
        Names.TASK: [(TASK, f"ABSENT-{case}")],
        Names.AGENT: [(OTHER_OWNER, NOBODY)],
        Names.SESSION: [(f"vault-{case}", f"attic-{case}")],
        Names.REQUEST: [(f"request-{case}", f"another-{case}-{uuid.uuid4().hex}")],
        Names.PATH: [(PATH, "src/absent_/token.py")],
        Names.CONTENT: [(TEXT, TEXT.replace("late", "fast"))],
        Names.REVISION: [
            # of another tenant: one it really made, and one it never made; else its own
            (world.owner.client.last_revision, world.signer.revision_token(world.tenant_id, bookmarks))
            if caller.name == "other_tenant"
            else (world.owner.client.last_revision, caller.revision)
        ],
    }
    return pairs[naming.names]


# ---- answers --------------------------------------------------------------------------------------------------------

_OWN_TO_A_CALL = {"revision", "nextPageToken", "retrievalId", "durationMs", "createdTime", "policyId"}


async def answered(stubs: Stubs, method: str, request: Message, api_key: str | None) -> Message | Refusal:
    """The answer, once the stores are there: a busy machine's timeouts are no answer to compare."""
    for _ in range(5):
        answer = await stubs.call(method, request, api_key)
        if not isinstance(answer, Refusal) or answer.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"):
            break
        await asyncio.sleep(0.5)
    return answer


def comparable(answer: Message | Refusal, *values: str) -> str:
    """The answer as text, without what differs between two calls anyway: times, tokens, new ids, the values sent."""
    if isinstance(answer, Refusal):
        shown: dict[str, Any] = {"code": answer.code, "message": answer.message}
        for name, detail in answer.details.items():
            if name != "RequestInfo":
                shown[name] = json_format.MessageToDict(detail)
    else:
        shown = _stripped(json_format.MessageToDict(answer))
        if answer.DESCRIPTOR.name == "PutUnitsResponse":
            for result in shown["results"]:
                result["unitId"] = result["unitKey"] = "<new>"
    text = json.dumps(shown, sort_keys=True, indent=1)
    for value in filter(None, values):
        text = text.replace(json.dumps(value)[1:-1], "<value>")
    return text


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(inner) for key, inner in value.items() if key not in _OWN_TO_A_CALL}
    return [_stripped(inner) for inner in value] if isinstance(value, list) else value
