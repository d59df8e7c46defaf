// Writes a retrieval with a relationship to each unit that it selected or deferred.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     retrieval (map: properties of the node without embedding: retrieval_id, agent_id, session_id, query_text,
//       fingerprint, task_id, task_step, strategy, outcome, retrieval_budget, total_step_budget, harness_overhead,
//       reasoning_reserve, ranking_charge, tokens_spent, candidates_selected, candidates_deferred, budget_remaining,
//       partial, created_time, duration_ms, payload_sha256, candidates_json, caption);
//     embedding (list of floats: the query's vector; null: none);
//     selections (list of maps, by unit_id: {unit_id, relationship_type (SELECTED or DEFERRED), value (0 to 1), cost
//       (tokens), rank (from 1), disposition}, each unit once).
// Returns:
//   edge_count (integer): relationships written; units deleted meanwhile have none.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, context_unit_id (unique seeks).
// Serves: FeedbackStore.record_retrieval.
// Source: gate B13.
// Visibility: the units are candidates of this caller's own retrieval, found by statements that contain the predicate.
:param tenant_id => 'demo';
:param write => {retrieval: {retrieval_id: 'example', agent_id: 'ingest', session_id: 'main', query_text: 'example', fingerprint: '00', task_id: '', task_step: 0, strategy: 'about_topic', outcome: 'nothing_matched', retrieval_budget: 1000, total_step_budget: null, harness_overhead: 0, reasoning_reserve: 0, ranking_charge: 0, tokens_spent: 0, candidates_selected: 0, candidates_deferred: 0, budget_remaining: 1000, partial: false, created_time: datetime('2026-01-01T00:00:00Z'), duration_ms: 1.0, payload_sha256: '', candidates_json: '[]', caption: 'example'}, embedding: null, selections: [{unit_id: 'aaaaaaaaaaaa', relationship_type: 'SELECTED', value: 0.5, cost: 10, rank: 1, disposition: 'selected'}]};

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
CREATE (retrieval:Retrieval {tenant_id: $tenant_id})
SET retrieval += $write.retrieval, retrieval.embedding = toFloatList($write.embedding)
WITH retrieval
CALL (retrieval) {
  UNWIND $write.selections AS selection
  MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: selection.unit_id})
  CREATE (retrieval)-[:$(selection.relationship_type) {
    value: selection.value, cost: selection.cost, rank: selection.rank, disposition: selection.disposition}]->(unit)
  RETURN count(*) AS edge_count
}
RETURN edge_count;
