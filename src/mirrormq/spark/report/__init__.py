"""The audit's page: one HTML file with its style and its plots inside, and nothing from elsewhere."""
