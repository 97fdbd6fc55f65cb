"""The controller: decides about brokers, topics, leaders and settings, and tells the brokers."""
