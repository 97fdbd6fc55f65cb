"""From bytes on a connection to a request that is allowed, and back: frames, SASL, rights, fetch sessions."""
