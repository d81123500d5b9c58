"""An optional decoder step in C++: built by the system's compiler when it is first wanted, absent without one."""

from omniflow.native.binding import NativeModel, NativeShape, load_native

__all__ = ["NativeModel", "NativeShape", "load_native"]
