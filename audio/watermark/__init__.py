"""A keyed mark in generated speech that can be read back: docs/watermark.md."""
