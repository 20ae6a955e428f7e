"""Agents side by side, and one page in the browser that answers what they ask: see README.md."""
