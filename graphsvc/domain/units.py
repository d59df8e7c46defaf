"""Context units: the agnostic format that is the record (gates N1 to N4).

Source: seed neutral-selection-layer, Model-Agnostic Context Format.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

MAX_CONTENT_BYTES = 2**20
"""1 MiB: longer text is not one unit; split it."""
MAX_EXCERPT_BYTES = 8 * 2**10
MAX_VENDOR_STATE_BYTES = 64 * 2**10
MAX_RELATIONS = 256
MAX_PROVENANCE = 64
MAX_NAME_BYTES = 256
"""agent_id, session_id, task_id, unit_key, role, model; 256 bytes of UTF-8."""
MAX_PATH_BYTES = 1024
MAX_BATCH_UNITS = 1000


class ContextUnitKind(StrEnum):
    """What a unit is. Closed: a new kind is a change of the format.

    Each is there because it ages, is shared and is referenced differently from the others (README, The format).
    """

    TOOL_RESULT = "tool_result"
    """Output of a tool call: evidence; large, soon stale; not shared unless named."""
    DECISION = "decision"
    """What an agent decided and why: outlives its step; shared by default policies."""
    STATE_SNAPSHOT = "state_snapshot"
    """State at one point in time, such as a file's text: superseded by the next snapshot."""
    PROGRESS_NOTE = "progress_note"
    """Progress, summary, plan: cheap, and soon worthless outside its session."""
    CONSTRAINT = "constraint"
    """A rule, preference or restriction: durable, never cold; shared by default policies."""
    CORRECTION = "correction"
    """A fix to earlier output: must travel with, and outrank, what it corrects."""
    OBSERVATION = "observation"
    """Something from outside: user feedback, a metric, a document's passage."""


class EdgeType(StrEnum):
    """How two units relate. Closed: finer meaning goes into a relation's role."""

    DEPENDENCY = "dependency"
    """Source needs target (imports, mentions, tests, documents)."""
    PROVENANCE = "provenance"
    """Source was made from target (chunk from file, summary from turns)."""
    SUPERSESSION = "supersession"
    """Source replaces target: target is no longer current."""
    CAUSATION = "causation"
    """Source brought target about (commit changed file, decision led to action)."""

    @property
    def relationship_type(self) -> str:
        """The Neo4j relationship type."""
        return self.name


class Direction(StrEnum):
    """Which way an edge is followed, seen from the anchor."""

    BOTH = "both"
    OUTGOING = "outgoing"
    INCOMING = "incoming"


class EpistemicStatus(StrEnum):
    """How sure the writer is of the content."""

    TENTATIVE = "tentative"
    CONFIRMED = "confirmed"
    DISPUTED = "disputed"
    REFUTED = "refuted"


class Tier(StrEnum):
    """Where the content lives, fastest first."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The call that a tool_result answers, vendor-neutral."""

    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed edge from the unit that holds it to ``target_id``.

    Attributes:
        role: finer meaning, an open string such as "imports"; empty: none.
        weight: strength in [0, 1]; 1 when the writer gives none.
    """

    target_id: str
    edge_type: EdgeType
    role: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ContextUnit:
    """One unit as stored: the schema of gate N1.

    Attributes:
        unit_id: assigned by the service (:func:`unit_id_for`), unique in the tenant.
        unit_key: the writer's own name for it, unique in (agent, session).
        timestamp: when it became true, by the writer (aware UTC); ``as_of`` reads this.
        created_time: when the service stored it (aware UTC).
        task_step: the writer's step counter in the session, from 0; turn order is (session_id, task_step).
        provenance: free-text source trace, outermost last.
        relevance_score: in [0, 1], kept by the tier orchestrator.
        vendor_state: opaque bytes of the vendor ``model`` belongs to; never primary.
        content_sha256: hex digest of the content's UTF-8.
        token_counts: tokens of the content as rendered in a block, by encoding name.
    """

    unit_id: str
    unit_key: str
    tenant_id: str
    agent_id: str
    session_id: str
    kind: ContextUnitKind
    content: str
    timestamp: datetime
    created_time: datetime
    task_step: int = 0
    task_id: str = ""
    epistemic_status: EpistemicStatus = EpistemicStatus.TENTATIVE
    provenance: tuple[str, ...] = ()
    relevance_score: float = 0.0
    tier: Tier = Tier.WARM
    relations: tuple[Relation, ...] = ()
    path: str = ""
    model: str = ""
    pinned: bool = False
    tool_call: ToolCall | None = None
    vendor_state: bytes = b""
    content_sha256: str = ""
    size_bytes: int = 0
    token_counts: dict[str, int] = field(default_factory=dict[str, int])


def unit_id_for(tenant_id: str, agent_id: str, session_id: str, unit_key: str) -> str:
    """The unit_id of a writer's key: 12 lower-case base32 characters (60 bits).

    Ids are derived from the writer's own scope, so two agents that choose the same key never meet, a repeated write
    names the same unit, and putting a key tells nothing about anybody else's units.
    """
    text = "\x1f".join((tenant_id, agent_id, session_id, unit_key))
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest)[:12].decode().lower()


def excerpt_of(content: str, limit: int = MAX_EXCERPT_BYTES) -> str:
    """The first ``limit`` bytes of the content, cut at a character boundary."""
    data = content.encode()
    if len(data) <= limit:
        return content
    return data[:limit].decode(errors="ignore")
