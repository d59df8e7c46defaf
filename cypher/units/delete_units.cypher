// Removes the caller's own units with edges and embeddings, once per request_id; chains of supersession close over the gap.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes), owner of the units.
//   write (map): what is removed; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     unit_ids (list of strings, 1 to 1000: units to remove, each once).
//   now (datetime): time of the write.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): what the first time removed, a JSON list of [unit_id, content_sha256]; null: this is the first time.
//   removed (list of lists): [unit_id, content_sha256] of the units removed, by unit_id; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, session_id and context_unit_id (unique seeks).
// Serves: UnitStore.delete_units.
// Source: product.md, Content; known_failures.md, Lost or doubled writes.
// Visibility: agent and session must be the caller's, which is narrower; neighbours are only kept consistent, never returned.
//
// Units go one after the other, so that a chain of several removed units closes too. Predecessors are written to before
// their successors are counted: the lock makes `current` right against concurrent writers of the same unit.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-delete', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', unit_ids: ['aaaaaaaaaaaa']};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  OPTIONAL MATCH (session:Session {tenant_id: $tenant_id, agent_id: $caller.agent_id, session_id: $caller.session_id})
  SET session.written_time = $now
  WITH *
  CALL (session) {
    UNWIND $write.unit_ids AS unit_id
    MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: unit_id})
    WHERE unit.agent_id = $caller.agent_id AND unit.session_id = $caller.session_id
    WITH DISTINCT unit ORDER BY unit.unit_id
    RETURN collect(unit) AS doomed, collect([unit.unit_id, unit.content_sha256]) AS removed
  }
  CALL (doomed) {
    UNWIND doomed AS unit
    MATCH (unit)-[:SUPERSESSION]->(predecessor:ContextUnit)
    WHERE NOT predecessor IN doomed
    WITH DISTINCT predecessor ORDER BY predecessor.unit_id
    SET predecessor.current = predecessor.current
    RETURN collect(predecessor) AS predecessors
  }
  CALL (doomed) {
    UNWIND doomed AS unit
    CALL (unit) {
      CALL (unit) {
        MATCH (successor:ContextUnit)-[later:SUPERSESSION]->(unit)-[:SUPERSESSION]->(predecessor:ContextUnit)
        WHERE NOT EXISTS { (successor)-[:SUPERSESSION]->(predecessor) }
        WITH DISTINCT successor, predecessor, min(later.role) AS role, max(later.weight) AS weight
        CREATE (successor)-[:SUPERSESSION {role: role, weight: weight, created_time: $now}]->(predecessor)
        RETURN count(*) AS closed_count
      }
      OPTIONAL MATCH (unit)-[:HAS_EMBEDDING]->(vector:UnitEmbedding)
      DETACH DELETE vector
      WITH DISTINCT unit
      DETACH DELETE unit
    }
    RETURN count(*) AS deleted_count
  }
  CALL (predecessors) {
    UNWIND predecessors AS target
    WITH target, NOT EXISTS { (target)<-[:SUPERSESSION]-(successor:ContextUnit)
      WHERE successor.agent_id = target.agent_id AND successor.session_id = target.session_id
        AND successor.kind = target.kind } AS is_current
    SET target.current = is_current, target.scope_terms = CASE
      WHEN is_current THEN replace(target.scope_terms, 'past0', 'current0')
      ELSE replace(target.scope_terms, 'current0', 'past0') END
    WITH target, is_current
    MATCH (target)-[:HAS_EMBEDDING]->(vector:UnitEmbedding)
    SET vector.current = is_current
    RETURN count(*) AS recomputed_count
  }
  SET request.result_json = '[' + reduce(text = '', pair IN removed |
    text + CASE text WHEN '' THEN '' ELSE ',' END + '["' + pair[0] + '","' + pair[1] + '"]') + ']'
  RETURN removed
}
RETURN stored_fingerprint, replayed_json, removed;
