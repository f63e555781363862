"""The described machine: the document, its file, and the names of those that are described."""
