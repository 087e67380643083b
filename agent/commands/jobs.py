"""/job, /jobs, /cancel, and what /status ID and /help ID say: work in the background."""

from __future__ import annotations

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.jobs import wording
from agent.model import ids
from agent.model.job import JobOrigin, JobRefusal, JobRequest, JobViewer

NO_WORDS = "Say what is to be done: `/job WHAT IS TO BE DONE`."
NO_JOB = "Say which job: `/cancel ID`, with at least four of its first digits. `/jobs` lists them."


def viewer_of(context: CommandContext) -> JobViewer:
    """Whose jobs are meant, and before whose eyes they are shown."""
    message = context.message
    is_shared = message.metadata.chat_type.is_shared
    return JobViewer(context.thread.user, message.replies_go_to if is_shared else None)


async def show(context: CommandContext, reference: str) -> CommandReply:
    """`/status ID`: one job."""
    found = await context.services.jobs.find(viewer_of(context), reference)
    return CommandReply(found.text if isinstance(found, JobRefusal) else wording.details(found, context.now))


async def help_stuck(context: CommandContext, reference: str) -> CommandReply:
    """`/help ID`: let a stuck job go on."""
    found = await context.services.jobs.help(viewer_of(context), reference)
    if isinstance(found, JobRefusal):
        return CommandReply(found.text)
    return CommandReply(wording.RECOVERED.format(id=found.short_id, title=found.title, attempt=found.attempts))


async def count(context: CommandContext) -> str:
    """`/status`: one line on a person's jobs."""
    return wording.summary(await context.services.jobs.count(viewer_of(context)))


async def _job(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    _, _, text = context.message.text.strip().partition(" ")
    if not args:
        return CommandReply(NO_WORDS)
    message = context.message
    is_shared = message.metadata.chat_type.is_shared
    request = JobRequest(
        user=context.thread.user,
        title=text,
        description=text,
        origin=JobOrigin(
            message.replies_go_to,
            message.metadata.chat_type,
            message.sender.user_id,
            message.metadata.timezone,
            message.message_id if is_shared else None,
        ),
        id=ids.job_id("command", message.delivery_key),
        model=context.thread.model,
    )
    taken = await context.services.jobs.create(request)
    return CommandReply(taken.text if isinstance(taken, JobRefusal) else wording.started(taken))


async def _list(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    wanted = " ".join(args) or "all"
    found = await context.services.jobs.list(viewer_of(context), wanted)
    if isinstance(found, JobRefusal):
        return CommandReply(found.text)
    if not found.total:
        return CommandReply(wording.NO_JOBS if not args else wording.NONE_OF_THEM)
    return CommandReply(wording.listing(found.jobs, found.total))


async def _cancel(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    if not args:
        return CommandReply(NO_JOB)
    found = await context.services.jobs.cancel(viewer_of(context), " ".join(args))
    if isinstance(found, JobRefusal):
        return CommandReply(found.text)
    return CommandReply(wording.CANCELLED.format(id=found.short_id, title=found.title))


JOB_COMMANDS = (
    Command("job", "start work in the background", CacheImpact.NONE, _job, ("create",), "WHAT IS TO BE DONE"),
    Command("jobs", "list your background jobs", CacheImpact.NONE, _list, ("list",), "[FILTER]"),
    Command("cancel", "cancel a background job", CacheImpact.NONE, _cancel, arguments="ID"),
)
