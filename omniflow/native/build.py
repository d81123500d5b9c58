"""Compiles the native step into the user's cache, once per source, compiler and instruction set."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from omniflow.folders import cache_root

_LOG = logging.getLogger(__name__)
_SOURCES = ("step.cpp", "attention.h", "barrier.h", "matrix.h", "vectors.h")
ARCHITECTURE = "native"
_FLAGS = ("-O3", "-std=c++20", "-fopenmp", "-fno-math-errno", "-fPIC", "-shared", "-w")
_COMPILE_SECONDS = 120


def library() -> Path | None:
    """The compiled library, built now if need be; None without a compiler or with OMNIFLOW_NATIVE=0."""
    if os.environ.get("OMNIFLOW_NATIVE", "1") == "0":
        return None
    compiler = _compiler()
    target = None if compiler is None else _target(compiler)
    if compiler is None or target is None:
        return None
    path = cache_root() / "native" / f"step-{_key(target)}.so"
    return path if path.is_file() or _compile(compiler, path) else None


def _compiler() -> str | None:
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found is not None:
            return found
    return None


def _target(compiler: str) -> bytes | None:
    """The compiler's predefined macros on this processor: its version and every instruction set it would use."""
    command = [compiler, *_flags(), "-dM", "-E", "-x", "c++", os.devnull]
    result = _run(command)
    return None if result is None else result.stdout


def _flags() -> list[str]:
    return [*_FLAGS, f"-march={ARCHITECTURE}"]


def _key(target: bytes) -> str:
    digest = hashlib.sha256(target)
    for name in _SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    digest.update(" ".join(_flags()).encode())
    return digest.hexdigest()[:20]


def _compile(compiler: str, path: Path) -> bool:
    """Whether the library now lies at `path`; it appears there whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
            built = Path(folder) / "step.so"
            source = Path(__file__).parent / "step.cpp"
            result = _run([compiler, *_flags(), "-o", str(built), str(source)])
            if result is None:
                return False
            built.replace(path)
            return True
    except OSError as error:
        _LOG.warning("the native step cannot be kept in %s (%s); using plain torch", path.parent, error)
        return False


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=_COMPILE_SECONDS)  # noqa: S603
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        _LOG.warning("%s cannot build the native step (%s); using plain torch", command[0], lines[0])
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("%s cannot build the native step (%s); using plain torch", command[0], error)
    return None
