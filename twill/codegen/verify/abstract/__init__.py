"""The parts of the abstract machine, `twill.codegen.verify.abstract_machine`."""
