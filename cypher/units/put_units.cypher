// Stores units with their edges, embeddings and tasks, all or none, once per request_id; tells what was there already.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes), owner of the units.
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     units (list of maps, 1 to 1000, by unit_id: {position (integer, place in the batch), unit_id, unit_sha256,
//       properties (map; created_time is set here), embeddings (list of 0 or 1 vectors), outside_ids (ids of
//       relation targets not in the batch), superseded_ids (ids of superseded units), edges (list of {target_id,
//       relationship_type, role, weight})}).
//   now (datetime): time of the write; policies that expire at or before it do not hold.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): positions of the units that were there at the first time, a JSON list; null: this is the first time.
//   existing_positions (list of integers): units that are there already, the same; null on a replay.
//   differing_positions (list of integers): units that are there already with another unit_sha256; the caller rolls back if there is one; null on a replay.
//   missing_ids (list of strings): relation targets absent or not visible; the caller rolls back if there is one; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, agent_id, session_id, task_id and context_unit_id (unique seeks).
// Serves: UnitStore.put_units.
// Source: product.md, 5; known_failures.md, Lost or doubled writes; cypher_perf.md, section 5.
//
// (:Request) comes first, so that duplicates wait for each other at its unique index; then the write lock on (:Session),
// so that no other write of this session comes between the look-up and the CREATE. Writers of other sessions never wait.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-put', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', units: [{position: 0, unit_id: 'aaaaaaaaaaaa', unit_sha256: '00', properties: {tenant_id: 'demo', unit_id: 'aaaaaaaaaaaa', unit_key: 'example', agent_id: 'ingest', session_id: 'main', kind: 'observation', task_id: '', task_step: 0, epistemic_status: 'tentative', timestamp: datetime('2026-01-01T00:00:00Z'), path: '', model: '', pinned: false, tier: 'warm', relevance_score: 0.0, content_sha256: '00', unit_sha256: '00', size_bytes: 7, token_count_cl100k_base: 1, token_count_o200k_base: 1, excerpt: 'example', search_terms: '', term_frequencies: '', scope_terms: 'current0', key_phrases: [], provenance: [], current: true, caption: 'example'}, embeddings: [], outside_ids: [], superseded_ids: [], edges: []}]};
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
  MERGE (agent:Agent {tenant_id: $tenant_id, agent_id: $caller.agent_id})
    ON CREATE SET agent.created_time = $now
  MERGE (session:Session {tenant_id: $tenant_id, agent_id: $caller.agent_id, session_id: $caller.session_id})
    ON CREATE SET session.created_time = $now
  SET session.written_time = $now
  WITH *
  CALL (session) {
    UNWIND $write.units AS row
    OPTIONAL MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: row.unit_id})
    RETURN
      collect(CASE WHEN unit IS NULL THEN row END) AS new_rows,
      collect(CASE WHEN unit.unit_sha256 = row.unit_sha256 THEN row.position END) AS existing_positions,
      collect(CASE WHEN unit.unit_sha256 <> row.unit_sha256 THEN row.position END) AS differing_positions
  }
  CALL (grants, new_rows) {
    UNWIND new_rows AS row
    UNWIND row.outside_ids AS target_id
    WITH DISTINCT grants, target_id
    OPTIONAL MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: target_id})
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
    RETURN collect(CASE WHEN unit IS NULL THEN target_id END) AS missing_ids
  }
  CALL (new_rows) {
    UNWIND new_rows AS row
    UNWIND row.superseded_ids AS target_id
    WITH DISTINCT target_id
    MATCH (target:ContextUnit {tenant_id: $tenant_id, unit_id: target_id})
    RETURN max(target.created_time) AS newest_superseded
  }
  WITH *,
    CASE WHEN newest_superseded >= $now THEN newest_superseded + duration({microseconds: 1}) ELSE $now END AS first_time
  CALL (new_rows, first_time) {
    UNWIND new_rows AS row
    CREATE (unit:ContextUnit)
    SET unit = row.properties, unit.created_time = first_time + duration({microseconds: row.position})
    FOREACH (embedding IN row.embeddings |
      CREATE (unit)-[:HAS_EMBEDDING]->(:UnitEmbedding {
        tenant_id: $tenant_id, unit_id: row.unit_id, agent_id: $caller.agent_id, session_id: $caller.session_id,
        kind: row.properties.kind, current: true, embedding: toFloatList(embedding)}))
    RETURN count(*) AS created_count
  }
  CALL (new_rows, first_time) {
    UNWIND new_rows AS row
    MATCH (source:ContextUnit {tenant_id: $tenant_id, unit_id: row.unit_id})
    WITH first_time, source, row.edges AS edges
    UNWIND edges AS edge
    MATCH (target:ContextUnit {tenant_id: $tenant_id, unit_id: edge.target_id})
    CREATE (source)-[:$(edge.relationship_type) {
      role: edge.role, weight: edge.weight, created_time: first_time}]->(target)
    RETURN count(*) AS edge_count
  }
  CALL (new_rows) {
    UNWIND new_rows AS row
    UNWIND row.superseded_ids AS target_id
    WITH DISTINCT row.properties.kind AS kind, target_id
    ORDER BY target_id
    MATCH (target:ContextUnit {tenant_id: $tenant_id, unit_id: target_id})
    WHERE target.agent_id = $caller.agent_id AND target.session_id = $caller.session_id AND target.kind = kind
    SET target.current = false, target.scope_terms = replace(target.scope_terms, 'current0', 'past0')
    WITH target
    MATCH (target)-[:HAS_EMBEDDING]->(vector:UnitEmbedding)
    SET vector.current = false
    RETURN count(*) AS past_count
  }
  CALL (new_rows, first_time) {
    UNWIND new_rows AS row
    WITH row, first_time WHERE row.properties.task_id <> ''
    WITH row.properties.task_id AS task_id, first_time, collect(row.unit_id) AS unit_ids
    ORDER BY task_id
    MERGE (task:Task {tenant_id: $tenant_id, task_id: task_id})
      ON CREATE SET task.created_time = $now
    WITH task, first_time, unit_ids
    UNWIND unit_ids AS unit_id
    MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: unit_id})
    CREATE (task)-[:DEPENDENCY {role: 'task', weight: 1.0, created_time: first_time}]->(unit)
    RETURN count(*) AS task_count
  }
  SET request.result_json = '[' + reduce(text = '', position IN existing_positions |
    text + CASE text WHEN '' THEN '' ELSE ',' END + toString(position)) + ']'
  RETURN existing_positions, differing_positions, missing_ids
}
RETURN stored_fingerprint, replayed_json, existing_positions, differing_positions, missing_ids;
