"""Compiles the native step into the user's cache, once per source, compiler and instruction set."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from omniflow.folders import cache_root

_LOG = logging.getLogger(__name__)
_SOURCES = (
    "step.cpp",
    "activations.h",
    "attention.h",
    "barrier.h",
    "deal.h",
    "matrix.h",
    "product.h",
    "tiles.h",
    "vectors.h",
)
ARCHITECTURE = "native"
_FLAGS = ("-O3", "-std=c++20", "-fno-math-errno", "-fPIC", "-shared", "-w")
_COMPILE_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Toolchain:
    """A compiler that works: its command, and the macros it predefines, which tell its version and instruction set."""

    command: tuple[str, ...]
    macros: bytes

    @property
    def key(self) -> str:
        digest = hashlib.sha256(self.macros)
        for name in _SOURCES:
            digest.update((Path(__file__).parent / name).read_bytes())
        digest.update(" ".join(self.command).encode())
        return digest.hexdigest()[:20]


def library() -> Path | None:
    """The compiled library, built now if need be; None without a compiler or with OMNIFLOW_NATIVE=0."""
    if os.environ.get("OMNIFLOW_NATIVE", "1") == "0":
        return None
    toolchain = _toolchain()
    if toolchain is None:
        return None
    path = cache_root() / "native" / f"step-{toolchain.key}.so"
    return path if path.is_file() or _compile(toolchain, path) else None


def _toolchain() -> _Toolchain | None:
    """The first compiler that is there; one without OpenMP builds a step for one thread."""
    wanted = os.environ.get("CXX")
    found = [path for name in ([wanted] if wanted else ["c++", "g++", "clang++"]) if (path := shutil.which(name))]
    if not found:
        return None
    message = ""
    for threads in (["-fopenmp"], []):
        command = (found[0], *_FLAGS, f"-march={ARCHITECTURE}", *threads)
        macros, message = _run([*command, "-dM", "-E", "-x", "c++", os.devnull])
        if macros is not None:
            return _Toolchain(command=command, macros=macros)
    _LOG.warning("%s cannot build the native step (%s); using plain torch", found[0], message)
    return None


def _compile(toolchain: _Toolchain, path: Path) -> bool:
    """Whether the library now lies at `path`; it appears there whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
            built = Path(folder) / "step.so"
            source = Path(__file__).parent / "step.cpp"
            output, message = _run([*toolchain.command, "-o", str(built), str(source)])
            if output is None:
                _LOG.warning("%s cannot build the native step (%s); using plain torch", toolchain.command[0], message)
                return False
            built.replace(path)
            return True
    except OSError as error:
        _LOG.warning("the native step cannot be kept in %s (%s); using plain torch", path.parent, error)
        return False


def _run(command: list[str]) -> tuple[bytes | None, str]:
    """Standard output, or None and the first line of what went wrong."""
    try:
        result = subprocess.run(command, capture_output=True, check=True, timeout=_COMPILE_SECONDS)  # noqa: S603
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return None, lines[0] if lines else f"exit status {error.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return result.stdout, ""
