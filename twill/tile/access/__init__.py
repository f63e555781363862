"""Raw accesses as tile accesses: affine addresses, masks and layouts, whatever their spelling."""
