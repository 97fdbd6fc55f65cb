"""One module per Kafka message: its request and response class, with the structures inside them.

Made by tools/generate_messages.py; change that, not this.
"""
