"""What a launch needs to know of an emitted kernel: the one thing that the compiler tells the runtime."""
