// Stores the next version of a tenant's predictor, and uses it if it is adopted; only where nobody else was first.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (0 to 256 bytes; empty: a process that recalibrates by itself).
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     in_use_before (integer, 0 or more: the version in use when the fit began);
//     predictor (map: properties of the node (version, created_time, prior_version, intercept, weight_names, weights,
//       rate_kinds, reference_rates, retrieval_count, example_count, adopted, report_json, caption));
//     result_json (string: the version, given back on a replay).
//   now (datetime): time of the write.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   replayed_json (string): the version of the first time; null: this is the first time.
//   saved (boolean): whether the version was stored; false: the version is there or another is in use, and the caller rolls back; null on a replay.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id, predictor_version (unique seeks).
// Serves: PredictorStore.save_predictor.
// Source: gate B10.
//
// SET takes the write lock on (:Tenant); only behind it is it read which version is in use and whether this one is there,
// so that of two processes one stores its predictor.
:param tenant_id => 'demo';
:param caller => {agent_id: '', session_id: ''};
:param write => {request_id: 'recalibration-1', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', in_use_before: 0, predictor: {version: 1, created_time: datetime('2026-01-01T00:00:00Z'), prior_version: 'prior-1', intercept: -9.0, weight_names: ['topic_match'], weights: [7.5], rate_kinds: ['decision'], reference_rates: [0.35], retrieval_count: 70, example_count: 560, adopted: true, report_json: '{}', caption: 'v1, adopted'}, result_json: '1'};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (tenant:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH tenant, request, request.fingerprint AS stored_fingerprint, request.result_json AS replayed_json
OPTIONAL CALL (tenant, request, stored_fingerprint, replayed_json) {
  WITH * WHERE stored_fingerprint = $write.fingerprint AND replayed_json IS NULL
  SET tenant.predictor_time = $write.predictor.created_time
  WITH tenant, request
  OPTIONAL MATCH (tenant)-[used:USES]->(before:Predictor)
  WITH tenant, request, used,
    coalesce(before.version, 0) = $write.in_use_before
    AND NOT EXISTS { (:Predictor {tenant_id: $tenant_id, version: $write.predictor.version}) } AS saved
  CALL (tenant, request, used, saved) {
    WITH * WHERE saved
    SET request.result_json = $write.result_json
    CREATE (predictor:Predictor {tenant_id: $tenant_id, version: $write.predictor.version})
    SET predictor += $write.predictor
    FOREACH (_ IN CASE WHEN predictor.adopted THEN [1] ELSE [] END |
      DELETE used
      CREATE (tenant)-[:USES {since: $now}]->(predictor))
    RETURN count(*) AS stored
  }
  RETURN saved
}
RETURN stored_fingerprint, replayed_json, saved;
