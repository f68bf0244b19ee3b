"""Not trusted: strategies that propose repairs of single reductions; the proofs decide. See ``registry``."""
