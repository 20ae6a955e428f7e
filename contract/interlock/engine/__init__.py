"""The engine: processes, gate, chain and runs."""
