"""What people read of jobs in containers."""

from __future__ import annotations

RESTARTED = (
    "The program was started anew while this job worked in its container. The container was ended, what it wrote in "
    "its folder is kept. Ask for the job again to go on from there."
)
NEVER_BEGAN = "Its container did not begin within {seconds} s and was ended. Nothing was done. Try it again."
SILENT = (
    "Its container gave no sign of life for {seconds} s and was ended. What it wrote in its folder is kept. Try it "
    "again, or ask for a smaller part."
)
OUT_OF_TIME = "Its time of {seconds} s was over and its container was ended. What it wrote in its folder is kept."
DIED = "Its container ended without a result (exit status {status}). What it wrote in its folder is kept."
FLOODED = (
    "Its container sent more than it may ({what}) and was ended. What it wrote in its folder is kept. Look at what it "
    "did before you start it again."
)
OUT_OF_STEPS = "It used up its {count} steps (maximum iterations) without coming to an end. What it did is kept."
NO_RESULT = "Its container ended without a word about what it did. What it wrote in its folder is kept."
NOT_STARTED = "Its container could not be started: {reason}. Nothing was done."
WRONG_FOLDER = "Its folder was replaced while the container started, so nothing was done. Try it again."
UNUSABLE_FOLDER = "Its folder cannot be used: {reason} Nothing was done."
UNREADABLE_ANSWER = "The language model gave an answer that could not be passed on. What it did is kept."
GONE = "It may not use containers any more. Nothing was done."

UNAVAILABLE = "containers are not available: {reason} Nothing was started. Without a mode the job runs inside me."
NOT_YOURS = "containers give a shell, which is not available to this person. Nothing was started."
NO_CREDENTIALS = (
    "no credentials enter a container, so it has no use for them. Leave 'credentials' out. Nothing was started."
)


def said(short_id: str, text: str) -> str:
    """What the model of a container says on the way, as the chat of origin reads it."""
    return f"[Job {short_id}] {text}"
