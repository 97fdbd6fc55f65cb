"""Groups of the consumer protocol (KIP-848): one heartbeat, assignments made by the coordinator."""
