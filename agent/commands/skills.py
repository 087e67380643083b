"""/skills: which skills there are, and a search in them."""

from __future__ import annotations

from agent.commands.base import CacheImpact, Command, CommandContext, CommandReply
from agent.skills.describe import fault_line, one_line, skill_line
from agent.skills.folders import Fault
from agent.skills.shelf import SkillShelf
from agent.skills.skill import Skill

USAGE = "`/skills` lists them; `/skills search WORDS` finds some; a message that begins with `/NAME` uses one."
_ASK = "Ask me for it in words, such as “{example}”: I show you what is going to happen before I do it."
_EXAMPLES = {
    "install": "install the skill from https://example.com/SKILL.md",
    "remove": "remove the skill git-help",
}
_MOST_SHOWN = 100


async def _run(context: CommandContext, args: tuple[str, ...]) -> CommandReply:
    is_told_faults = context.is_operator and not context.message.metadata.chat_type.is_shared
    return CommandReply(await reply(context.services.skills, args, is_told_faults=is_told_faults))


async def reply(shelf: SkillShelf, args: tuple[str, ...], *, is_told_faults: bool) -> str:
    """What to say to these words. `is_told_faults`: whether the reader is told what was passed over, and why."""
    match args:
        case ():
            return _listing(await shelf.list(), shelf.faults if is_told_faults else ())
        case (word, *words) if word.lower() == "search" and words:
            found = await shelf.search(" ".join(words))
            skills = tuple(each for each in found if isinstance(each, Skill))
            faults = tuple(each for each in found if isinstance(each, Fault)) if is_told_faults else ()
            if not skills and not faults:
                return f"No skill on this machine has the words “{one_line(' '.join(words))}”. There is no registry."
            return _listing(skills, faults)
        case (word, *_) if word.lower() in _EXAMPLES:
            return _ASK.format(example=_EXAMPLES[word.lower()])
        case _:
            return USAGE


def _listing(skills: tuple[Skill, ...], faults: tuple[Fault, ...]) -> str:
    lines = ["**Skills**", "", *(f"- {skill_line(skill)}" for skill in skills[:_MOST_SHOWN])]
    if not skills:
        lines = ["There are no skills."] if not faults else ["No skill is usable."]
    elif len(skills) > _MOST_SHOWN:
        lines.append(f"- and {len(skills) - _MOST_SHOWN} more; `/skills search WORDS` finds them")
    if faults:
        lines += ["", "**Passed over**", "", *(f"- {fault_line(fault)}" for fault in faults[:_MOST_SHOWN])]
    return "\n".join(lines)


SKILLS = Command(
    "skills", "instructions for kinds of tasks that are there", CacheImpact.NONE, _run, arguments="[search WORDS]"
)
