"""The warp program: statements, resources, layouts, expressions, and its text."""
