"""Pretrained models whose activations the tests run kernels on, and the scripts that fetch them."""
