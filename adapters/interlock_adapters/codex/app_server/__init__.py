"""`codex app-server`: JSON-RPC lines over stdin and stdout, with approvals, questions and turns."""
