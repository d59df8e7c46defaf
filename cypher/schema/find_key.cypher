// Returns an API key that holds, by its id: before it is found no tenant is known.
// Mode: READ
// Params:
//   key_id (string): the key's public part.
//   now (datetime): keys that expire at or before it do not hold.
// Returns:
//   tenant_id (string): the key's tenant.
//   agent_id (string): the key's agent.
//   roles (list of strings): the key's roles.
//   created_time (datetime): when it was made.
//   expires_time (datetime): from when it does not hold; null: never.
//   secret_sha256 (string, 64 hex digits): digest of its secret.
// Order: one row; none when the key is absent, revoked or expired.
// Index: api_key_id (unique seek).
// Serves: TenantStore.find_key.
// Source: product.md, 3; design.md, Errors.
:param key_id => 'example';
:param now => datetime('2026-01-01T00:00:00Z');

CYPHER 25
MATCH (key:ApiKey {key_id: $key_id})
WHERE key.revoked_time IS NULL AND (key.expires_time IS NULL OR key.expires_time > $now)
RETURN key.tenant_id AS tenant_id, key.agent_id AS agent_id, key.roles AS roles, key.created_time AS created_time,
  key.expires_time AS expires_time, key.secret_sha256 AS secret_sha256;
