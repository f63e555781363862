"""What an emission must pass: the abstract machine, and the executor of PTX."""
