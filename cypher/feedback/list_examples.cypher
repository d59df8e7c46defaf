// Returns the delivered units of a tenant's newest reported retrievals with their verdicts: what predictors are fitted on.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the tenant.
//   retrieval_limit (integer, 1 to 10000): retrievals read at most.
// Returns:
//   retrieval_id (string): the retrieval.
//   reported_time (datetime): when its outcome was reported.
//   feature_names (list of strings): what the features are.
//   verdicts (list of lists): [kind, features (list of floats), value, referenced (boolean)] of each delivered unit, by unit_id.
// Order: reported_time, retrieval_id; a retrieval whose units are all deleted has no row.
// Index: retrieval_reported (range scan backwards).
// Serves: PredictorStore.list_examples.
// Source: gates B9, B10.
// Visibility: a batch of the whole tenant reads features and verdicts; no id or content of a unit comes back.
:param tenant_id => 'demo';
:param retrieval_limit => 1000;

CYPHER 25
MATCH (retrieval:Retrieval {tenant_id: $tenant_id})
WHERE retrieval.reported_time > datetime('0001-01-01T00:00:00Z')
WITH retrieval
ORDER BY retrieval.reported_time DESC, retrieval.retrieval_id DESC
LIMIT $retrieval_limit
MATCH (retrieval)-[selected:SELECTED]->(unit:ContextUnit)
MATCH (retrieval)-[verdict:REFERENCED|IGNORED]->(unit)
WITH retrieval, unit, selected, verdict
ORDER BY unit.unit_id
WITH retrieval,
  collect([unit.kind, selected.features, selected.value, type(verdict) = 'REFERENCED']) AS verdicts
RETURN retrieval.retrieval_id AS retrieval_id, retrieval.reported_time AS reported_time,
  retrieval.feature_names AS feature_names, verdicts
ORDER BY reported_time, retrieval_id;
