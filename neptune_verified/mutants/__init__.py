"""Not trusted: wrong transformations, and whether the verifier refuses them. It is the verifier that is tested here."""
