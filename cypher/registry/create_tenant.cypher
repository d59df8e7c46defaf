// Makes a tenant known; tells whether it is new.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the tenant.
//   now (datetime): time of the write.
// Returns:
//   created (boolean): false: it was there already.
// Order: one row.
// Index: tenant_id (unique seek).
// Serves: TenantStore.create_tenant.
// Source: known_failures.md, Isolation (writes to a tenant that does not exist).
:param tenant_id => 'demo';
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
OPTIONAL MATCH (known:Tenant {tenant_id: $tenant_id})
MERGE (tenant:Tenant {tenant_id: $tenant_id})
  ON CREATE SET tenant.created_time = $now
RETURN known IS NULL AS created;
