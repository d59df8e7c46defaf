// The database's time, told in Cypher 25.
// Mode: READ
// Params: none
// Returns:
//   time (datetime): the server's clock when the statement began.
// Order: one row
// Index: none
// Serves: graphsvc doctor
// Source: product.md (doctor checks Cypher 25 and the clock)

CYPHER 25
RETURN datetime.statement() AS time;
