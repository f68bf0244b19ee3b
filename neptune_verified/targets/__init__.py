"""Executions of a loop program other than the Triton kernel."""
