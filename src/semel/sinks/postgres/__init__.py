"""The PostgreSQL sink: staged rows and ledger in one database transaction for each micro-batch."""
