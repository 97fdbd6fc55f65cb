"""What is true of the cluster: its state, the records that change it, settings, access control lists."""
