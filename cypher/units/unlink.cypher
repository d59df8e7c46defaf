// Removes typed edges from the caller's own units to visible units, once per request_id; absent ones are left out.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes), owner of the sources.
//   write (map): what is removed; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     edges (list of maps, 1 to 1000: {source_id, target_id, relationship_type, role}, each once).
//   now (datetime): time of the write; policies that expire at or before it do not hold.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): the count of the first time, a JSON number; null: this is the first time.
//   removed_count (integer): edges removed; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, session_id and context_unit_id (unique seeks).
// Serves: UnitStore.unlink.
// Source: product.md, 5.
//
// A target that lost a successor is written to before its successors are counted: the lock makes concurrent writers of
// the same target wait, so `current` is computed from all edges that are committed.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-unlink', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', edges: [{source_id: 'aaaaaaaaaaaa', target_id: 'bbbbbbbbbbbb', relationship_type: 'DEPENDENCY', role: ''}]};
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
    MATCH (source:ContextUnit {tenant_id: $tenant_id, unit_id: edge.source_id})
    WHERE source.agent_id = $caller.agent_id AND source.session_id = $caller.session_id
    MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: edge.target_id})
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
    MATCH (source)-[relation:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]->(unit)
    WHERE type(relation) = edge.relationship_type AND relation.role = edge.role
    RETURN
      collect(relation) AS relations,
      collect(DISTINCT CASE WHEN edge.relationship_type = 'SUPERSESSION' THEN unit END) AS released
  }
  FOREACH (relation IN relations | DELETE relation)
  WITH *
  CALL (released) {
    UNWIND released AS target
    WITH target ORDER BY target.unit_id
    SET target.current = target.current
    WITH collect(target) AS targets
    UNWIND targets AS target
    WITH target, NOT EXISTS { (target)<-[:SUPERSESSION]-(successor:ContextUnit)
      WHERE successor.agent_id = target.agent_id AND successor.session_id = target.session_id
        AND successor.kind = target.kind } AS is_current
    WHERE is_current AND NOT target.current
    SET target.current = true, target.scope_terms = replace(target.scope_terms, 'past0', 'current0')
    WITH target
    MATCH (target)-[:HAS_EMBEDDING]->(vector:UnitEmbedding)
    SET vector.current = true
    RETURN count(*) AS current_count
  }
  SET request.result_json = toString(size(relations))
  RETURN size(relations) AS removed_count
}
RETURN stored_fingerprint, replayed_json, removed_count;
