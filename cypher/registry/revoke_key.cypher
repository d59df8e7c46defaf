// Ends an API key at once; returns how many keys that were.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the key's tenant.
//   key_id (string): the key's public part.
//   now (datetime): time of the write.
// Returns:
//   revoked_count (integer, 0 or 1): 0: there is no such key in this tenant, or it is revoked already.
// Order: one row.
// Index: api_key_id (unique seek).
// Serves: TenantStore.revoke_key.
// Source: product.md, 3.
:param tenant_id => 'demo';
:param key_id => 'example';
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (key:ApiKey {key_id: $key_id})
WHERE key.tenant_id = $tenant_id AND key.revoked_time IS NULL
SET key.revoked_time = $now
RETURN count(key) AS revoked_count;
