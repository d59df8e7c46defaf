// Returns the tenants with feedback that no predictor has seen, whichever they are: recalibration is due to all alike.
// Mode: READ
// Params:
//   page (map): which tenants:
//     from_tenant_id (string: the first that may be among them; empty: any);
//     until_tenant_id (string: the last that may be; null: any);
//     limit (integer, 1 to 1000: tenants returned at most);
//     count_limit (integer, 1 or more: retrievals of each counted at most).
// Returns:
//   tenant_id (string): the tenant.
//   retrieval_count (integer, 1 to count_limit): retrievals reported after its last fit.
//   oldest_time (datetime): when the first of these was reported.
//   last_fit_time (datetime): null: there was none.
// Order: tenant_id.
// Index: tenant_id (range scan), retrieval_reported (range seek, in order).
// Serves: PredictorStore.list_unlearned, PredictorStore.get_unlearned.
// Source: gate B10.
:param page => {from_tenant_id: '', until_tenant_id: null, limit: 100, count_limit: 100};

CYPHER 25
MATCH (tenant:Tenant)
WHERE tenant.tenant_id >= $page.from_tenant_id
  AND ($page.until_tenant_id IS NULL OR tenant.tenant_id <= $page.until_tenant_id)
CALL (tenant) {
  MATCH (retrieval:Retrieval {tenant_id: tenant.tenant_id})
  WHERE retrieval.reported_time > coalesce(tenant.predictor_time, datetime('0001-01-01T00:00:00Z'))
  WITH retrieval.reported_time AS reported_time
  ORDER BY reported_time
  LIMIT $page.count_limit
  RETURN count(*) AS retrieval_count, min(reported_time) AS oldest_time
}
WITH tenant, retrieval_count, oldest_time
WHERE retrieval_count > 0
RETURN tenant.tenant_id AS tenant_id, retrieval_count, oldest_time, tenant.predictor_time AS last_fit_time
ORDER BY tenant_id
LIMIT $page.limit;
