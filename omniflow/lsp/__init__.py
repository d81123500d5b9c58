"""The language server: what the compiler knows of a spec, over the Language Server Protocol."""
