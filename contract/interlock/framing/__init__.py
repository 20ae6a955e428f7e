"""Framing: bytes to messages, without I/O."""
