"""`codex exec --json`: one process is one turn, the prompt in and JSON lines out."""
