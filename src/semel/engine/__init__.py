"""Start what runs outside this process: a Java runtime, jars, and clusters of either kind."""
