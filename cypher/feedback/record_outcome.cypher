// Writes the verdicts on the units that a retrieval delivered, all or none, once per retrieval; the first report stands.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes), owner of the retrieval.
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     request_id (string, 1 to 128 bytes: the caller's name for this write);
//     fingerprint (string, 64 hex digits: sha256 of the request);
//     retrieval_id (string);
//     report_fingerprint (string, 64 hex digits: sha256 of what is reported);
//     verdicts (map of maps, from unit_id: {relationship_type (REFERENCED or IGNORED), methods (list of strings),
//       evidence}).
//   now (datetime): time of the write.
// Returns:
//   stored_fingerprint (string): of the request first carried out under this request_id; another than $write.fingerprint: nothing is written.
//   report_fingerprint (string): of the report that stands now; null: the retrieval is absent or somebody else's; another than the given one: nothing is written and the caller rolls back.
//   is_new (boolean): whether this report gave the verdicts; null: there is no such retrieval.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, request_id and retrieval_id (unique seeks).
// Serves: FeedbackStore.record_outcome.
// Source: gate B8; product.md, 5.
// Visibility: only units that this caller's own retrieval delivered get a verdict, and none is returned.
//
// (:Request) comes first, as in every write. SET takes the write lock on (:Retrieval); only behind it is it decided
// whether there is a report, so that of two at once one stands, whole.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param write => {request_id: 'example-outcome', fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', retrieval_id: 'example', report_fingerprint: '0000000000000000000000000000000000000000000000000000000000000000', verdicts: {aaaaaaaaaaaa: {relationship_type: 'REFERENCED', methods: ['citation'], evidence: 'cited'}}};
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
MERGE (request:Request {tenant_id: $tenant_id, agent_id: $caller.agent_id, request_id: $write.request_id})
  ON CREATE SET request.fingerprint = $write.fingerprint, request.created_time = $now
WITH request, request.fingerprint AS stored_fingerprint
OPTIONAL CALL (request, stored_fingerprint) {
  WITH * WHERE stored_fingerprint = $write.fingerprint
  MATCH (retrieval:Retrieval {tenant_id: $tenant_id, retrieval_id: $write.retrieval_id})
  WHERE retrieval.agent_id = $caller.agent_id AND retrieval.session_id = $caller.session_id
  SET retrieval.caption = retrieval.caption
  WITH request, retrieval, retrieval.report_fingerprint IS NULL AS is_new
  CALL (retrieval, is_new) {
    WITH retrieval WHERE is_new
    MATCH (retrieval)-[selected:SELECTED]->(unit:ContextUnit)
    WITH retrieval, selected, unit, $write.verdicts[unit.unit_id] AS verdict
    WHERE verdict IS NOT NULL
    // In order, so that concurrent reports on the same units lock them in the same order.
    ORDER BY unit.unit_id
    CREATE (retrieval)-[:$(verdict.relationship_type) {
      value: selected.value, cost: selected.cost, rank: selected.rank, methods: verdict.methods,
      evidence: verdict.evidence, reported_time: $now}]->(unit)
    RETURN
      sum(CASE verdict.relationship_type WHEN 'REFERENCED' THEN 1 ELSE 0 END) AS referenced_count,
      sum(CASE verdict.relationship_type WHEN 'IGNORED' THEN 1 ELSE 0 END) AS ignored_count
  }
  FOREACH (_ IN CASE WHEN is_new THEN [1] ELSE [] END |
    SET retrieval.report_fingerprint = $write.report_fingerprint, retrieval.reported_time = $now,
      retrieval.referenced_count = referenced_count, retrieval.ignored_count = ignored_count)
  SET request.result_json = '"' + retrieval.retrieval_id + '"'
  RETURN retrieval.report_fingerprint AS report_fingerprint, is_new
}
RETURN stored_fingerprint, report_fingerprint, is_new;
