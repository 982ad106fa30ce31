"""Compiles `oncelog/record/walk.py` into a wheel where there are Cython and a C compiler; elsewhere it stays Python.

ONCELOG_COMPILED=0 compiles nothing, 1 ends the build where nothing can be compiled.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "oncelog.record.walk"
SOURCE = Path("src/oncelog/record/walk.py")
DIRECTIVES = {
    "annotation_typing": False,  # walk.pxd has the types
    "boundscheck": False,
    "cdivision": True,
    "language_level": 3,
    "wraparound": False,
}


class CompiledModule(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ONCELOG_COMPILED", "")
        place = Path(self.root) / SOURCE.parent
        if version == "editable":
            for old in place.glob(f"{SOURCE.stem}.*.so"):
                old.unlink()
        if self.target_name != "wheel" or wanted == "0":
            return
        try:
            built = compiled(Path(self.root))
        except Exception as error:
            if wanted == "1":
                raise
            self.app.display_warning(f"{SOURCE.name} is not compiled: {error}")
            return
        if version == "editable":
            shutil.move(built, place / built.name)
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(built)] = f"oncelog/record/{built.name}"


def compiled(root: Path) -> Path:
    """The extension module, in a folder of its own. Raises what Cython or the C compiler has to say."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    folder = tempfile.mkdtemp(prefix="oncelog-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the wheel is not packed yet
    # Cython tells a module's package by where it stands, and finds its `.pxd` beside it.
    modules = cythonize(
        [Extension(MODULE, [str(root / SOURCE)], extra_compile_args=["-g0", "-w"])],
        build_dir=folder,
        compiler_directives=DIRECTIVES,
        quiet=True,
    )
    command = Distribution({"name": "oncelog", "ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib = command.build_temp = folder
    command.ensure_finalized()
    command.run()
    return Path(command.get_outputs()[0])
