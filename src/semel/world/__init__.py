"""The only doors to what cannot be repeated: clock, randomness, disk, network; a real one and a virtual twin each."""
