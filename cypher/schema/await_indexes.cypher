// Returns when every index is online, else fails after the given time.
// Mode: READ
// Params:
//   timeout_s (integer, 1 to 3600 seconds): how long to wait.
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: known_failures.md (a missing index crashes the first search)
:param timeout_s => 60;

CYPHER 25
CALL db.awaitIndexes($timeout_s);
