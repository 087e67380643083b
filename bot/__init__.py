"""Composes and runs optimclaw."""

__version__ = "0.1.0"
