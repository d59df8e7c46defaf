"""Digest of a unit's writer-given fields: tells a repeated put from a different unit under the same key.

Source: product.md, 5 (twice means once); gate N1.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC

from graphsvc.domain.units import ContextUnit, Relation


def distinct_relations(relations: tuple[Relation, ...]) -> tuple[Relation, ...]:
    """The relations without repetitions, sorted by target, type and role.

    An edge is named by its target, type and role; of several with the same name the first one's weight holds.
    """
    first: dict[tuple[str, str, str], Relation] = {}
    for relation in relations:
        first.setdefault((relation.target_id, relation.edge_type.value, relation.role), relation)
    return tuple(first[name] for name in sorted(first))


def unit_digest(unit: ContextUnit) -> str:
    """Hex sha256 over canonical JSON of everything that the writer gave, 64 characters.

    Left out is what the service assigns or keeps: unit_id, owner, created_time, tier, relevance_score, size and token
    counts, and the content itself, for which content_sha256 stands. The timestamp counts only when it differs from
    created_time: a writer that gives none gets the time of the write for both, and the same unit put again a second
    later is still the same unit.
    """
    fields = {
        "unit_key": unit.unit_key,
        "kind": unit.kind.value,
        "content_sha256": unit.content_sha256,
        "timestamp": None if unit.timestamp == unit.created_time else unit.timestamp.astimezone(UTC).isoformat(),
        "task_step": unit.task_step,
        "task_id": unit.task_id,
        "epistemic_status": unit.epistemic_status.value,
        "provenance": list(unit.provenance),
        "relations": [
            [relation.target_id, relation.edge_type.value, relation.role, float(relation.weight)]
            for relation in distinct_relations(unit.relations)
        ],
        "path": unit.path,
        "model": unit.model,
        "pinned": unit.pinned,
        "tool_call": None
        if unit.tool_call is None
        else [unit.tool_call.call_id, unit.tool_call.name, unit.tool_call.arguments_json],
        "vendor_state": hashlib.sha256(unit.vendor_state).hexdigest(),
    }
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
