"""Everything about the package is in pyproject.toml; this file only empties the build
folder before a build.

setuptools installs all that it finds in build/lib, also what an earlier build has left
there and the project no longer has.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class CleanBuild(build_py):
    def run(self) -> None:
        if not self.editable_mode and Path(self.build_lib).exists():
            shutil.rmtree(self.build_lib)
        super().run()


setup(cmdclass={"build_py": CleanBuild})
