// Writes a retrieval with a relationship to each unit that it selected or deferred.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   write (map): what is written; in one map, so that neither list sizes nor string lengths make Neo4j plan again:
//     retrieval (map: properties of the node without embedding: retrieval_id, agent_id, session_id, query_text,
//       fingerprint, task_id, task_step, strategy, outcome, retrieval_budget, total_step_budget, harness_overhead,
//       reasoning_reserve, threshold_factor, ranking_charge, tokens_spent, candidates_selected, candidates_deferred, budget_remaining,
//       partial, created_time, duration_ms, payload_sha256, candidates_json, deferred_ids, feature_names,
//       predictor_version, caption);
//     embedding (list of floats: the query's vector; null: none);
//     selections (list of maps, by unit_id: {unit_id, relationship_type (SELECTED or DEFERRED), value (0 to 1), cost
//       (tokens), rank (from 1), disposition, hop_count (-1: no path), edge_types, features}, each unit once);
//     lowered (list of string): unit_ids that lose value in this session for good, from this retrieval on.
// Returns:
//   edge_count (integer): relationships written; units deleted meanwhile have none.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, context_unit_id (unique seeks).
// Serves: FeedbackStore.record_retrieval.
// Source: gate B13.
// Visibility: the units are candidates of this caller's own retrieval, found by statements that contain the predicate.
:param tenant_id => 'demo';
:param write => {retrieval: {retrieval_id: 'example', agent_id: 'ingest', session_id: 'main', query_text: 'example', fingerprint: '00', task_id: '', task_step: 0, strategy: 'about_topic', outcome: 'nothing_matched', retrieval_budget: 1000, total_step_budget: null, harness_overhead: 0, reasoning_reserve: 0, threshold_factor: 1.0, ranking_charge: 0, tokens_spent: 0, candidates_selected: 0, candidates_deferred: 0, budget_remaining: 1000, partial: false, created_time: datetime('2026-01-01T00:00:00Z'), duration_ms: 1.0, payload_sha256: '', candidates_json: '[]', deferred_ids: [], feature_names: ['topic_match'], predictor_version: 0, caption: 'example'}, embedding: null, selections: [{unit_id: 'aaaaaaaaaaaa', relationship_type: 'SELECTED', value: 0.5, cost: 10, rank: 1, disposition: 'selected', hop_count: 1, edge_types: ['dependency'], features: [0.5]}], lowered: []};

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
CREATE (retrieval:Retrieval {tenant_id: $tenant_id})
SET retrieval += $write.retrieval, retrieval.embedding = toFloatList($write.embedding)
WITH retrieval
CALL (retrieval) {
  UNWIND $write.selections AS selection
  MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: selection.unit_id})
  CREATE (retrieval)-[:$(selection.relationship_type) {
    value: selection.value, cost: selection.cost, rank: selection.rank, disposition: selection.disposition,
    hop_count: selection.hop_count, edge_types: selection.edge_types, features: selection.features}]->(unit)
  RETURN count(*) AS edge_count
}
CALL (retrieval) {
  UNWIND $write.lowered AS unit_id
  MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: unit_id})
  MERGE (session:Session {
    tenant_id: $tenant_id, agent_id: $write.retrieval.agent_id, session_id: $write.retrieval.session_id})
  MERGE (session)-[lowers:LOWERS]->(unit)
  ON CREATE SET lowers.since = retrieval.created_time, lowers.retrieval_id = retrieval.retrieval_id
  RETURN count(*) AS lowered_count
}
RETURN edge_count;
