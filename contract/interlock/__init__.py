"""The contract, and the engine that holds every party to it."""
