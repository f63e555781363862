"""What pyproject.toml cannot say: every package is found, and two stand at the top of the repository.

`machines/` and `server/` are installed inside the package, as `twill.machines` and `twill.server`.
"""

from setuptools import find_packages, setup

ROOMS = {"twill": "twill", "twill.machines": "machines", "twill.server": "server"}

setup(
    package_dir=ROOMS,
    packages=[name for room, place in ROOMS.items() for name in (room, *(f"{room}.{p}" for p in find_packages(place)))],
    package_data={"": ["*.c", "*.css", "*.cu", "*.cuh", "*.js", "*.toml", "py.typed"]},
)
