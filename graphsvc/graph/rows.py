"""Rows of statements as domain objects.

Columns come as lists in a fixed order, the shared part ``entry`` of ``cypher/visibility.cypher``: one row of lists
costs a tenth of the client's time that a record each would (cypher_perf.md, pitfall 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from neo4j.time import DateTime

from graphsvc.domain.candidates import CatalogEntry
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, EdgeType, EpistemicStatus, Tier

ENTRY_FIELDS = (
    "unit_id",
    "unit_key",
    "agent_id",
    "session_id",
    "task_step",
    "kind",
    "epistemic_status",
    "timestamp",
    "created_time",
    "path",
    "model",
    "tier",
    "relevance_score",
    "pinned",
    "content_sha256",
    "size_bytes",
    "token_count_cl100k_base",
    "token_count_o200k_base",
)
"""The order of the part ``entry``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EDGE_TYPES = {edge_type.relationship_type: edge_type for edge_type in EdgeType}


def to_datetime(value: int | DateTime | datetime) -> datetime:
    """A time as the domain has it (aware, UTC): from microseconds since 1970, or from the driver's own type."""
    if isinstance(value, int):
        return _EPOCH + timedelta(microseconds=value)
    native = value.to_native() if isinstance(value, DateTime) else value
    return native.astimezone(UTC)


def to_edge_type(relationship_type: str) -> EdgeType:
    """The edge type of a Neo4j relationship type."""
    return _EDGE_TYPES[relationship_type]


def to_entry(values: Sequence[Any]) -> CatalogEntry:
    """A catalog entry from a list in the order of :data:`ENTRY_FIELDS`."""
    return CatalogEntry(
        unit_id=values[0],
        unit_key=values[1],
        agent_id=values[2],
        session_id=values[3],
        task_step=values[4],
        kind=ContextUnitKind(values[5]),
        epistemic_status=EpistemicStatus(values[6]),
        timestamp=to_datetime(values[7]),
        created_time=to_datetime(values[8]),
        path=values[9],
        model=values[10],
        tier=Tier(values[11]),
        relevance_score=values[12],
        pinned=values[13],
        content_sha256=values[14],
        size_bytes=values[15],
        token_counts={"cl100k_base": values[16], "o200k_base": values[17]},
    )


def to_predictor(properties: Mapping[str, Any]) -> PredictorVersion:
    """A predictor version from the properties of its node."""
    return PredictorVersion(
        version=properties["version"],
        created_time=to_datetime(properties["created_time"]),
        prior_version=properties["prior_version"],
        intercept=properties["intercept"],
        weights=dict(zip(properties["weight_names"], properties["weights"], strict=True)),
        reference_rates={
            ContextUnitKind(kind): rate
            for kind, rate in zip(properties["rate_kinds"], properties["reference_rates"], strict=True)
        },
        retrieval_count=properties["retrieval_count"],
        example_count=properties["example_count"],
        adopted=properties["adopted"],
        report_json=properties["report_json"],
    )


def to_caller(principal: Principal) -> dict[str, str]:
    """The parameter ``caller`` of the shared parts ``grants`` and ``visible``.

    A map: the lengths of strings and lists that are parameters themselves are part of a plan's key, so that each new
    length would be planned anew, for longer than an answer may take. Inside a map they are not.
    """
    return {"agent_id": principal.agent_id, "session_id": principal.session_id}
