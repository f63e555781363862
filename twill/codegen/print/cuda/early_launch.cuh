// A launch that begins before those in front of it have ended (PTX ISA, "griddepcontrol").

// .wait: all grids in front have ended, and what they wrote is visible; .launch_dependents: the grid behind may begin.
DEV void await_earlier_grids() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
