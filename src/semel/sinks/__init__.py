"""Where a pipeline's rows go: each sink keeps its ledger with the result, so that a micro-batch counts once."""
