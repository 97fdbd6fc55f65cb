"""The Delta Lake sink: Parquet files and ledger in one entry of the table's log for each micro-batch."""
