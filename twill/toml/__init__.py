"""Reading TOML so that an error names file, line and key."""
