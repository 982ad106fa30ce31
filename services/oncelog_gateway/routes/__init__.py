"""One module per resource: HTTP in, `oncelog_gateway.cluster` out. No rules live here."""
