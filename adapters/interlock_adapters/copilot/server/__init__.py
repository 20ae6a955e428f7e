"""`copilot --headless --stdio`: JSON-RPC with hooks, permission requests and questions."""
