"""What Interlock costs, beside its peers and a bare reader: `python -m benchmarks`."""
