"""Trusted: the programs that the proofs speak about, and their meaning.

``expr``       the expression language (grammar and prose at the head of the file)
``program``    stages over symbolic shapes
``interpret``  what every expression means, executed in float64
``inline``     one closed expression per output
``loops``      the fused loop program and its interpreter
``serialize``  JSON for programs and loop programs, and their hashes
``printing``   readable mathematics
"""
