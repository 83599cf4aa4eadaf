"""The wire protocol: every event as a pydantic model."""
