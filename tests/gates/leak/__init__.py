"""What the leak test is made of: which fields of the API name something, and the values that name a foreign thing."""
