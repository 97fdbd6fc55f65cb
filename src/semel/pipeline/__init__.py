"""What an operator sees of a pipeline and can do to it: status, reset, release. Needs no Spark."""
