"""The canonical layout of a spec file: read into pieces, comments tied to what they speak of, written again."""
