// Units one typed edge or up to two turns away from the best topic hits.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies and rejections that expire at or before it do not hold.
//   neighbours (map): a map for the same reason, of
//     seed_ids (list of string, 0 to 64): best topic hits.
//     candidate_ids (list of string, 0 to 4000): units known already, not returned again.
//     kinds (list of string): kinds to be found; all seven for any.
//     all_kinds (list of string): the seven, for turns count whatever their kind.
//     fingerprint (string): the query's; what it rejects is left out.
//     as_of (datetime or null): only units with a timestamp up to it exist; null: all.
//     edge_limit (integer, 1 to 10000): visible edges of a seed at most; a seed with more is a hub and links nothing.
//       Edges that lead to a linked unit are counted up to it.
//     turn_limit (integer, 1 to 100): units within two steps of a seed at most, its own step included and itself aside;
//       where there are more, the steps are no turn order, and none is taken.
// Returns:
//   links (list of list): [seed's unit_id, unit_id, edge type, whether it leads from the seed to the unit, weight] each.
//   turns (list of list): [seed's unit_id, unit_id, steps from the seed to the unit: -2 to 2, not 0] each.
//   in_degrees (list of list): [unit_id, visible typed edges that lead to it] of linked units.
//   hits (list of list): [successor's unit_id or '', entry] of each linked unit or turn that is not among the candidates.
//   blocked_count (integer): such units that the query rejects.
// Order: none
// Index: context_unit_id, context_unit_kind_step, policy_tenant, query_fingerprint.
// Serves: ContextGraph.neighbours
// Source: retrieval_findings.md (edges win, each type in its own way); gates B2, C4, N2, N10
//
// Of a seed, one visible edge more than the limit is read: that tells a hub, and no edge that the caller may not see
// makes one. Supersession is no link here: an old version is not context of the new one.
// replan=skip: planning takes longer than an answer may. The first plan may be made while the graph is empty, so nothing
// is left to its statistics: hints name the indexes, and the far end of an edge has no label, for else it could be sought
// among all units of the tenant. (A task, which has edges too, has no kind and so is never visible.)
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param neighbours => {seed_ids: ['aaaaaaaaaaaa'], candidate_ids: ['aaaaaaaaaaaa'], kinds: ['decision', 'observation'], all_kinds: ['constraint', 'correction', 'decision', 'observation', 'progress_note', 'state_snapshot', 'tool_result'], fingerprint: '', as_of: null, edge_limit: 200, turn_limit: 12};

CYPHER 25 replan=skip
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
CALL (grants) {
  MATCH (:Query {tenant_id: $tenant_id, fingerprint: $neighbours.fingerprint})-[rejects:REJECTS]->(unit:ContextUnit)
  WHERE rejects.lifted_time IS NULL AND (rejects.expires_time IS NULL OR rejects.expires_time > $now)
  RETURN collect(DISTINCT unit) AS blocked
}
CALL (grants) {
  UNWIND $neighbours.seed_ids AS seed_id
  MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: seed_id})
  WHERE
    // visible: begin
    unit.tenant_id = $tenant_id
    AND (
      (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
      OR any(grant IN grants WHERE
        grant.owner_agent_id IN ['', unit.agent_id]
        AND grant.owner_session_id IN ['', unit.session_id]
        AND unit.kind IN grant.kinds)
    )
    // visible: end
    AND ($neighbours.as_of IS NULL OR unit.timestamp <= $neighbours.as_of)
  RETURN collect(DISTINCT unit) AS seeds
}
CALL (grants, seeds) {
  UNWIND seeds AS seed
  CALL (grants, seed) {
    MATCH (seed)-[edge:DEPENDENCY|PROVENANCE|CAUSATION]-(unit)
    WHERE
      // visible: begin
      unit.tenant_id = $tenant_id
      AND (
        (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
        OR any(grant IN grants WHERE
          grant.owner_agent_id IN ['', unit.agent_id]
          AND grant.owner_session_id IN ['', unit.session_id]
          AND unit.kind IN grant.kinds)
      )
      // visible: end
      AND ($neighbours.as_of IS NULL OR unit.timestamp <= $neighbours.as_of)
    WITH seed, edge, unit LIMIT $neighbours.edge_limit + 1
    RETURN collect([unit, type(edge), startNode(edge) = seed, edge.weight]) AS edges
  }
  RETURN collect([seed, edges]) AS around
}
CALL (around) {
  UNWIND [row IN around WHERE size(row[1]) <= $neighbours.edge_limit] AS row
  UNWIND row[1] AS edge
  WITH row[0] AS seed, edge[0] AS unit, edge[1] AS edge_type, edge[2] AS outgoing, max(edge[3]) AS weight
  RETURN collect([seed, unit, edge_type, outgoing, weight]) AS links
}
CALL (grants, seeds) {
  UNWIND seeds AS seed
  CALL (grants, seed) {
    // One seek a kind that the caller may see there: where a session is shared in part, its other units are not read.
    UNWIND [kind IN $neighbours.all_kinds
      WHERE (seed.agent_id = $caller.agent_id AND seed.session_id = $caller.session_id) OR any(grant IN grants WHERE
        grant.owner_agent_id IN ['', seed.agent_id] AND grant.owner_session_id IN ['', seed.session_id]
        AND kind IN grant.kinds)] AS kind
    MATCH (unit:ContextUnit {
      tenant_id: $tenant_id, agent_id: seed.agent_id, session_id: seed.session_id, kind: kind
    })
    USING INDEX unit:ContextUnit(tenant_id, agent_id, session_id, kind, task_step)
    WHERE unit.task_step >= seed.task_step - 2 AND unit.task_step <= seed.task_step + 2 AND unit <> seed AND
      // visible: begin
      unit.tenant_id = $tenant_id
      AND (
        (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
        OR any(grant IN grants WHERE
          grant.owner_agent_id IN ['', unit.agent_id]
          AND grant.owner_session_id IN ['', unit.session_id]
          AND unit.kind IN grant.kinds)
      )
      // visible: end
      AND ($neighbours.as_of IS NULL OR unit.timestamp <= $neighbours.as_of)
    WITH unit LIMIT $neighbours.turn_limit + 1
    RETURN collect(unit) AS near
  }
  WITH seed, near
  WHERE size(near) <= $neighbours.turn_limit
  UNWIND near AS turn
  WITH seed, turn, turn.task_step - seed.task_step AS steps
  WHERE steps <> 0
  RETURN collect([seed, turn, steps]) AS turns
}
CALL (grants, links) {
  UNWIND coll.distinct([row IN links | row[1]]) AS linked
  CALL (grants, linked) {
    MATCH (linked)<-[:DEPENDENCY|PROVENANCE|CAUSATION]-(unit)
    WHERE
      // visible: begin
      unit.tenant_id = $tenant_id
      AND (
        (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
        OR any(grant IN grants WHERE
          grant.owner_agent_id IN ['', unit.agent_id]
          AND grant.owner_session_id IN ['', unit.session_id]
          AND unit.kind IN grant.kinds)
      )
      // visible: end
      AND ($neighbours.as_of IS NULL OR unit.timestamp <= $neighbours.as_of)
    WITH unit LIMIT $neighbours.edge_limit
    RETURN count(unit) AS in_degree
  }
  RETURN collect([linked.unit_id, in_degree]) AS in_degrees
}
WITH grants, blocked, links, turns, in_degrees,
  [unit IN coll.distinct([row IN links | row[1]] + [row IN turns | row[1]])
    WHERE unit.kind IN $neighbours.kinds AND NOT unit.unit_id IN $neighbours.candidate_ids] AS fresh
WITH grants, links, turns, in_degrees, [unit IN fresh WHERE NOT unit IN blocked] AS open,
  size([unit IN fresh WHERE unit IN blocked]) AS blocked_count
CALL (grants, open) {
  UNWIND open AS reached
  CALL (grants, reached) {
    MATCH (reached)<-[:SUPERSESSION]-(unit)
    WHERE
      // visible: begin
      unit.tenant_id = $tenant_id
      AND (
        (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
        OR any(grant IN grants WHERE
          grant.owner_agent_id IN ['', unit.agent_id]
          AND grant.owner_session_id IN ['', unit.session_id]
          AND unit.kind IN grant.kinds)
      )
      // visible: end
      AND ($neighbours.as_of IS NULL OR unit.timestamp <= $neighbours.as_of)
    RETURN min(unit.unit_id) AS successor
  }
  WITH reached AS unit, coalesce(successor, '') AS superseded_by
  RETURN collect([superseded_by,
    // entry: begin
    [
      unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
      unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
      unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
      unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
      unit.token_count_cl100k_base, unit.token_count_o200k_base
    ]
    // entry: end
  ]) AS hits
}
RETURN [row IN links | [row[0].unit_id, row[1].unit_id, row[2], row[3], row[4]]] AS links,
  [row IN turns | [row[0].unit_id, row[1].unit_id, row[2]]] AS turns, in_degrees, hits, blocked_count;
