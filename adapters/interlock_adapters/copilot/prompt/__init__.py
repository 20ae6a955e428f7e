"""`copilot` with the prompt on stdin: one process is one turn, JSON lines come out, and hooks call us."""
