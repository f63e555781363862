"""What would happen to every kernel of a package: each is found, specialized, extracted, and if asked for emitted."""
