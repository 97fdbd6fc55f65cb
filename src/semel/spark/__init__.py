"""What runs inside Spark: the worker daemon that has the kernels ready; the source and the writers will follow."""
