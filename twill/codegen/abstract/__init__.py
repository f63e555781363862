"""The parts of the abstract machine, `twill.codegen.abstract_machine`."""
