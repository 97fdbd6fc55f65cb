"""The transaction coordinator: a pure state machine, its records, and the shell that carries out its effects."""
