"""The rules and nouns of the service: pure, no input or output."""
