// Adds typed edges from the caller's own units to visible units, all or none, once per request_id.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes), owner of the sources.
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     edges (list of maps, 1 to 1000: {position (integer, place in the request), source_id, target_id,
//       relationship_type, role, weight}, each source, target, type and role once).
//   now (datetime): time of the write; policies that expire at or before it do not hold.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): positions of the edges that were there at the first time, a JSON list; null: this is the first time.
//   existing_positions (list of integers): edges that are there already; null on a replay.
//   missing_sources (list of integers): positions whose source is absent or not the caller's own; the caller rolls back if there is one; null on a replay.
//   missing_targets (list of integers): positions whose target is absent or not visible; the caller rolls back if there is one; null on a replay.
//   disordered_positions (list of integers): supersessions whose target is not older than the source; the caller rolls back if there is one; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, session_id and context_unit_id (unique seeks).
// Serves: UnitStore.link.
// Source: product.md, 5; cypher_perf.md, section 5.
//
// The write lock on (:Session) keeps two writers from adding the same edge: an edge's source is always of the session.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-link', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', edges: [{position: 0, source_id: 'aaaaaaaaaaaa', target_id: 'bbbbbbbbbbbb', relationship_type: 'DEPENDENCY', role: '', weight: 1.0}]};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
MATCH (:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH grants, request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (grants, request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  OPTIONAL MATCH (session:Session {tenant_id: $tenant_id, agent_id: $caller.agent_id, session_id: $caller.session_id})
  SET session.written_time = $now
  WITH *
  CALL (grants, session) {
    UNWIND $write.edges AS edge
    OPTIONAL MATCH (source:ContextUnit {tenant_id: $tenant_id, unit_id: edge.source_id})
    WHERE source.agent_id = $caller.agent_id AND source.session_id = $caller.session_id
    OPTIONAL MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: edge.target_id})
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
    WITH edge, source, unit AS target,
      EXISTS { (source)-[relation:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]->(unit)
        WHERE type(relation) = edge.relationship_type AND relation.role = edge.role } AS is_there
    WITH edge, source, target, is_there,
      edge.relationship_type = 'SUPERSESSION' AND NOT is_there AND (source.created_time < target.created_time
        OR source.created_time = target.created_time AND source.unit_id <= target.unit_id) AS is_disordered
    RETURN
      collect(CASE WHEN source IS NULL THEN edge.position END) AS missing_sources,
      collect(CASE WHEN target IS NULL THEN edge.position END) AS missing_targets,
      collect(CASE WHEN is_there THEN edge.position END) AS existing_positions,
      collect(CASE WHEN is_disordered THEN edge.position END) AS disordered_positions,
      collect(CASE WHEN NOT is_there AND source IS NOT NULL AND target IS NOT NULL
        THEN {edge: edge, source: source, target: target} END) AS additions
  }
  CALL (additions) {
    UNWIND additions AS addition
    WITH addition.source AS source, addition.target AS target, addition.edge AS edge
    CREATE (source)-[:$(edge.relationship_type) {role: edge.role, weight: edge.weight, created_time: $now}]->(target)
    WITH source, target, edge
    WHERE edge.relationship_type = 'SUPERSESSION'
      AND target.agent_id = source.agent_id AND target.session_id = source.session_id AND target.kind = source.kind
    WITH DISTINCT target
    ORDER BY target.unit_id
    SET target.current = false, target.scope_terms = replace(target.scope_terms, 'current0', 'past0')
    WITH target
    MATCH (target)-[:HAS_EMBEDDING]->(vector:UnitEmbedding)
    SET vector.current = false
    RETURN count(*) AS past_count
  }
  SET request.result_json = '[' + reduce(text = '', position IN existing_positions |
    text + CASE text WHEN '' THEN '' ELSE ',' END + toString(position)) + ']'
  RETURN existing_positions, missing_sources, missing_targets, disordered_positions
}
RETURN stored_fingerprint, replayed_json, existing_positions, missing_sources, missing_targets, disordered_positions;
