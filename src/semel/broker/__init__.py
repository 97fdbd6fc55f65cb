"""The embedded cluster: pure cores (log, producer state, coordinators) and the asyncio shell around them."""
