// Keys of a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: cypher_perf.md, section 4

CYPHER 25
CREATE RANGE INDEX api_key_tenant IF NOT EXISTS
FOR (n:ApiKey) ON (n.tenant_id);
