"""Why a file that somebody sent was not kept.

MediaError
├── NoRoom   the folder holds as much as it may: the sender has to remove something
└── NotKept  the disk, or what lies in the way, refused
"""

from __future__ import annotations


class MediaError(Exception):
    """Base of the faults; nothing was kept."""


class NoRoom(MediaError):
    """The folder holds as much as it may."""


class NotKept(MediaError):
    """The disk, or what lies in the way, refused."""
