"""What a unit costs, what it is worth, and which ones go in: pure, deterministic, no database."""
