// Returns a tenant's predictors and which of them is in use.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the tenant.
// Returns:
//   predictors (list of maps): properties of the nodes, by version.
//   in_use (integer, 0 or more): version in use; 0: the shared prior.
// Order: one row.
// Index: predictor_version (seek), tenant_id (unique seek).
// Serves: PredictorStore.list_predictors.
// Source: gate B10.
:param tenant_id => 'demo';

CYPHER 25
RETURN
  COLLECT {
    MATCH (predictor:Predictor {tenant_id: $tenant_id})
    WHERE predictor.version > 0
    RETURN properties(predictor)
    ORDER BY predictor.version
  } AS predictors,
  coalesce(
    head(COLLECT { MATCH (:Tenant {tenant_id: $tenant_id})-[:USES]->(used:Predictor) RETURN used.version }), 0
  ) AS in_use;
