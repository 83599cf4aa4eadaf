"""The demo page: static files, served at /."""
