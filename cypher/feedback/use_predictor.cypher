// Makes a version of a tenant's predictor the one in use, once per request_id.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes).
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     version (integer, 0 or more: the version; 0: the shared prior).
//   now (datetime): time of the write.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): the version that was in use before the first time; null: this is the first time.
//   found (boolean): whether there is the version; false: the caller rolls back; null on a replay.
//   in_use_before (integer, 0 or more): the version that was in use; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, predictor_version (unique seeks).
// Serves: PredictorStore.use_predictor.
// Source: gate B10.
//
// SET takes the write lock on (:Tenant), so that of two at once each sees what the other left.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: ''};
:param write => {request_id: 'example-roll-back', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', version: 0};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (tenant:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH tenant, request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (tenant, request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  SET tenant.rolled_back_time = $now
  WITH tenant, request
  OPTIONAL MATCH (tenant)-[used:USES]->(before:Predictor)
  OPTIONAL MATCH (predictor:Predictor {tenant_id: $tenant_id, version: $write.version})
  WITH tenant, request, used, predictor, coalesce(before.version, 0) AS in_use_before
  SET request.result_json = toString(in_use_before)
  FOREACH (_ IN CASE WHEN in_use_before <> $write.version THEN [1] ELSE [] END | DELETE used)
  FOREACH (_ IN CASE WHEN in_use_before <> $write.version AND predictor IS NOT NULL THEN [1] ELSE [] END |
    CREATE (tenant)-[:USES {since: $now}]->(predictor))
  RETURN predictor IS NOT NULL OR $write.version = 0 AS found, in_use_before
}
RETURN stored_fingerprint, replayed_json, found, in_use_before;
