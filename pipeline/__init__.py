"""The engine: stages, the workers that run them, and the memory they share. Knows no WebSocket."""
