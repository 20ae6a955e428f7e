"""The profiles that come with this package, one TOML file an agent."""
