"""Python files as trees, for tests of pages that name functions."""

import ast


def named_in(body, name):
    """What a module, class or function defines under this name; None if nothing."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == name:
                return node
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                return node
            case ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return node
    return None
