"""The group coordinator: a pure core in parts, and the shell that carries out its effects."""
