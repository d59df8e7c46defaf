// What values of candidates rest on besides the graph, and what they cannot be read without.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies and rejections that expire at or before it do not hold.
//   description (map): a map for the same reason, of
//     candidate_ids (list of string, 0 to 4000): units; who the caller may not see is left out.
//     fingerprint (string): the query's; what it rejects is left out.
//     as_of (datetime or null): only units with a timestamp up to it exist; null: all.
//     embedding (list of float or null): vector that cosines are taken with; null: none are.
//     lead_length (integer, 0 to 1000 characters): of the excerpt's start.
// Returns:
//   candidates (list of list): [unit_id, term frequencies, cosine in [-1, 1] or null, start of the excerpt] of each
//     candidate and of each companion that is returned.
//   companions (list of list): [unit_id, unit_id of what it cannot be read without, whether the query rejects that] each.
//   hits (list of list): [successor's unit_id or '', entry] of each companion that is not among the candidates and not
//     rejected.
// Order: none
// Index: context_unit_id, context_unit_tool_call, policy_tenant, query_fingerprint.
// Serves: ContextGraph.describe
// Source: gate B2 (topic match); product.md, What must be true of every answer, 8
//
// Every candidate gets the same exact scores, whichever search or edge found it. A companion is another unit of the same
// tool call in the same session, unless a newer version of it stands in that call, or the target of a provenance edge
// with the role 'header'. At most eight of either, the smallest ids. Hints, and far ends without label: list_neighbours.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param description => {candidate_ids: ['aaaaaaaaaaaa'], fingerprint: '', as_of: null, embedding: [n IN range(1, 256) | 0.0625], lead_length: 96};

CYPHER 25 replan=skip
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
CALL (grants) {
  MATCH (:Query {tenant_id: $tenant_id, fingerprint: $description.fingerprint})-[rejects:REJECTS]->(unit:ContextUnit)
  WHERE rejects.lifted_time IS NULL AND (rejects.expires_time IS NULL OR rejects.expires_time > $now)
  RETURN collect(DISTINCT unit) AS blocked
}
CALL (grants) {
  UNWIND $description.candidate_ids AS unit_id
  MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: unit_id})
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
    AND ($description.as_of IS NULL OR unit.timestamp <= $description.as_of)
  RETURN collect(unit) AS candidates
}
CALL (grants, candidates) {
  UNWIND candidates AS reader
  CALL (grants, reader) {
    WITH grants, reader
    WHERE reader.tool_call_id IS NOT NULL
    MATCH (unit:ContextUnit {
      tenant_id: $tenant_id, agent_id: reader.agent_id, session_id: reader.session_id, tool_call_id: reader.tool_call_id
    })
    USING INDEX unit:ContextUnit(tenant_id, agent_id, session_id, tool_call_id)
    WHERE unit <> reader AND
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
      AND ($description.as_of IS NULL OR unit.timestamp <= $description.as_of)
      // Whoever sees the unit sees this one too: it has the same owner and kind.
      AND NOT EXISTS {
        MATCH (unit)<-[:SUPERSESSION]-(newer)
        WHERE newer.agent_id = unit.agent_id AND newer.session_id = unit.session_id AND newer.kind = unit.kind
          AND newer.tool_call_id = unit.tool_call_id
          AND ($description.as_of IS NULL OR newer.timestamp <= $description.as_of)
      }
    RETURN unit AS companion ORDER BY unit.unit_id LIMIT 8
    UNION
    MATCH (reader)-[edge:PROVENANCE]->(unit)
    WHERE edge.role = 'header' AND
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
      AND ($description.as_of IS NULL OR unit.timestamp <= $description.as_of)
    RETURN unit AS companion ORDER BY unit.unit_id LIMIT 8
  }
  RETURN collect(DISTINCT [reader, companion]) AS pairs
}
WITH grants, blocked, candidates, pairs,
  [unit IN coll.distinct([pair IN pairs | pair[1]]) WHERE NOT unit.unit_id IN $description.candidate_ids AND NOT unit IN blocked] AS open
CALL (candidates, open) {
  UNWIND candidates + open AS unit
  CALL (unit) {
    MATCH (unit)-[:HAS_EMBEDDING]->(embedding:UnitEmbedding)
    // An embedder of other dimensions may have written it.
    WHERE size(embedding.embedding) = size($description.embedding)
    RETURN max(2 * vector.similarity.cosine(embedding.embedding, $description.embedding) - 1) AS cosine
  }
  RETURN collect([unit.unit_id, unit.term_frequencies, cosine, left(unit.excerpt, $description.lead_length)])
    AS described
}
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
      AND ($description.as_of IS NULL OR unit.timestamp <= $description.as_of)
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
RETURN described AS candidates, [pair IN pairs | [pair[0].unit_id, pair[1].unit_id, pair[1] IN blocked]] AS companions,
  hits;
