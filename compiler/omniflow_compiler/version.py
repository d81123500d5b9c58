"""The compiler's version, which is also the package's."""

VERSION = "0.1.0"
