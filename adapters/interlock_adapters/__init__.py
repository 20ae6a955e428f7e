"""Adapters for agents, and the command line."""
