"""Small worlds of units for the gates, and independent readings of what the service answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphsvc.client import GraphsvcClient, RankedUnit, RelationInput, Retrieval, UnitInput

FILLER = (" apple", " river", " stone", " cloud", " horse", " table", " green", " music")
"""Words that are one token each in both vocabularies."""

CITATION = re.compile(r"^\[retrieved id=([a-z2-7]{12})\]$", re.MULTILINE)


def text_of(name: str, token_count: int) -> str:
    """A text of about so many tokens; different names give different texts."""
    words = [FILLER[(index * 5 + len(name)) % len(FILLER)] for index in range(max(0, token_count - 2))]
    return name + "".join(words)


def around(
    anchor_key: str, key: str, token_count: int, *, edge_type: str = "dependency", **fields: object
) -> UnitInput:
    """A unit of so many tokens with an edge to the anchor."""
    values: dict[str, object] = {
        "kind": "observation",
        "content": text_of(key, token_count),
        "unit_key": key,
        "relations": [RelationInput(edge_type, target_key=anchor_key)],
        **fields,
    }
    return UnitInput(**values)  # type: ignore[arg-type]


async def put_around(client: GraphsvcClient, session_id: str, units: Sequence[UnitInput]) -> dict[str, str]:
    """Stores an anchor "anchor" and the units; gives the ids by key."""
    anchor = UnitInput("decision", "the anchor of this world", unit_key="anchor")
    outcomes = await client.put(session_id, [anchor, *units])
    return {one.unit_key: one.unit_id for one in outcomes}


def by_key(answer: Retrieval) -> dict[str, RankedUnit]:
    """Candidates by the writer's key."""
    return {one.unit_key: one for one in answer.candidates}


def ranking(answer: Retrieval) -> list[str]:
    """Keys of the candidates, best first."""
    return [one.unit_key for one in sorted(answer.candidates, key=lambda one: one.rank)]


def raw_of(one: RankedUnit, feature: str) -> float:
    """A feature as measured."""
    return next(part.raw for part in one.contributions if part.feature == feature)


def blocks_of(payload: str) -> dict[str, str]:
    """The payload's blocks by unit id, each with its citation line, in payload order."""
    starts = [match.start() for match in CITATION.finditer(payload)]
    assert starts[:1] == ([0] if payload else [])
    parts = [payload[start:end] for start, end in zip(starts, [*starts, len(payload)][1:], strict=True)]
    return {part[len("[retrieved id=") : part.index("]")]: part for part in parts}
