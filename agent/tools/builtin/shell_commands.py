"""What is known of single commands: which are never run, and which are asked for every time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from posixpath import normpath

from agent.tools.builtin.shell_syntax import Word


class Level(IntEnum):
    """How much a command can do. `LOW` reads the working folder; `HIGH` is destructive or cannot be judged."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Blocked:
    """A command that is never run, whoever consents."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rated:
    """A command that may run. `why` is empty for an ordinary one."""

    level: Level
    why: str = ""


Verdict = Blocked | Rated


@dataclass(frozen=True, slots=True)
class Call:
    """A command name with its arguments, freed of wrappers. `open_ended`: it gets more arguments, not known here."""

    name: str
    arguments: tuple[Word, ...]
    piped: bool = False
    pipes: bool = False
    redirected: bool = False
    open_ended: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.arguments)

    @property
    def is_computed(self) -> bool:
        """Whether some argument is not known before it runs."""
        return self.open_ended or any(word.expands for word in self.arguments)


NEVER = frozenset({"sudo", "sudoedit", "doas", "su", "pkexec", "run0", "eval"})
_MACHINE = """shutdown reboot poweroff halt iptables ip6tables nft ufw useradd adduser userdel deluser usermod groupadd
    groupdel passwd chpasswd visudo crontab at batch killall pkill mount umount chroot nsenter unshare setpriv insmod
    rmmod modprobe"""
_DATA = "shred wipefs fdisk sfdisk parted mkswap truncate srm"
# They change the meaning of later commands, or run text that is not seen here.
_HIDING = "alias unalias hash enable trap bind function coproc parallel expect ssh telnet socat script watch"
ALWAYS_ASKED = frozenset(f"{_MACHINE} {_DATA} {_HIDING}".split())
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh", "pwsh"})
INTERPRETER = re.compile(
    r"(?:python|pypy)[0-9.]*|perl[0-9.]*|ruby[0-9.]*|node(?:js)?|deno|bun|php[0-9.]*|lua[0-9.]*|tclsh|rscript|osascript"
)
_DESTRUCTIVE = re.compile(
    r"\brm\s+(?:-\S+\s+){0,16}(?:-[a-z]*r|--r)|\brmtree\b|\bremove_tree\b|\brm_rf?\b|rmsync|\bdrop\s+(?:table|database)\b"
    r"|\btruncate\s+\w|\bdelete\s+from\b|\bmkfs\b|\bdd\s+if=|\bchmod\s+(?:-\S+\s+){0,16}0?777\b|\bchown\s+-r\b"
    r"|\bgit\s+reset\s+--hard\b|\bkill\s+-(?:9|kill|s)"
    r"|\b(?:shutdown|reboot|poweroff|killall|pkill|crontab|visudo|useradd|userdel|iptables)\b"
)
# A command and what makes it destructive, anywhere behind it.
_DESTRUCTIVE_PAIRS = (
    (re.compile(r"\bgit\s+push\b"), re.compile(r"\s(?:-f|--force)")),
    (re.compile(r"\bgit\s+clean\b"), re.compile(r"\s-\w*f")),
)
FORBIDDEN_TEXT = (
    (re.compile(r"/etc/+(?:\./+)*(?:passwd|shadow|gshadow|sudoers)"), "names the system's account files"),
    (re.compile(r"(?:^|[/~\s=:'\"])\.ssh(?:/|$|\s)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b"), "names SSH keys"),
    (re.compile(r"\.(?:bash|zsh)_history"), "names a shell history"),
    (re.compile(r"/dev/+(?:tcp|udp)/"), "opens a network connection from the shell"),
    (
        re.compile(r"/dev/+(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd|nvme|mmcblk|disk/|mapper/|dm-|k?mem\b|port\b)"),
        "names a disk or memory device",
    ),
)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs another: flags without and with a value, and how many operands come before it."""

    flags: re.Pattern[str]
    valued: frozenset[str] = frozenset()
    operands: int = 0


def _wrapper(flags: str, valued: str = "", operands: int = 0) -> Wrapper:
    return Wrapper(re.compile(flags), frozenset(valued.split()), operands)


WRAPPERS: Mapping[str, Wrapper] = {
    "env": _wrapper(
        r"-[i0v]+|-|--(?:ignore-environment|null|debug)|--(?:unset|chdir)=.*|-[uC].+", "-u -C --unset --chdir"
    ),
    "nohup": _wrapper(r"(?!)"),
    "timeout": _wrapper(
        r"-[vf]+|-[ks].+|--(?:foreground|preserve-status|verbose)|--(?:signal|kill-after)=.*",
        "-k -s --signal --kill-after",
        operands=1,
    ),
    "nice": _wrapper(r"-n?-?[0-9]+|--adjustment=.*", "-n --adjustment"),
    "ionice": _wrapper(r"-t|-[cn][0-9]", "-c -n"),
    "stdbuf": _wrapper(r"-[ioe].+|--(?:input|output|error)=.*", "-i -o -e"),
    "setsid": _wrapper(r"-[cfw]+|--(?:ctty|fork|wait)"),
    "time": _wrapper(r"-[pvqa]+", "-f -o"),
    "command": _wrapper(r"-[pvV]+"),
    "builtin": _wrapper(r"(?!)"),
    "exec": _wrapper(r"-[cl]+", "-a"),
    "busybox": _wrapper(r"(?!)"),
    "toybox": _wrapper(r"(?!)"),
    "taskset": _wrapper(r"-[ac]+", operands=1),
    "flock": _wrapper(r"-[sxneFuo]+", "-w -E", operands=1),
    "xargs": _wrapper(
        r"-[0rtpxo]+|-[nPLIsadE].+|-[il].*|--(?:null|no-run-if-empty|verbose|exit)|--[a-z-]+=.*",
        "-n -P -L -I -s -a -d -E",
    ),
}
_STEERING = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4|LD_.*|DYLD_.*|PYTHON.*|PERL5.*|NODE_.*|GIT_.*|RUBYOPT"
)
FEEDS_ARGUMENTS = frozenset({"xargs"})


def is_destructive_text(text: str) -> bool:
    """Whether a text in lower case holds a destructive command, be it for a shell, a program or a database."""
    if _DESTRUCTIVE.search(text):
        return True
    return any((found := head.search(text)) and tail.search(text, found.end()) for head, tail in _DESTRUCTIVE_PAIRS)


def steers(name: str) -> bool:
    """Whether a variable decides which program a name stands for, or what a shell reads at its start."""
    return _STEERING.fullmatch(name) is not None


def rate_known(call: Call) -> Verdict | None:
    """The verdict on a command there is a rule for, else None."""
    if call.name in NEVER:
        return Blocked(f"runs {call.name}")
    if call.name.startswith("mkfs"):
        return Blocked("makes a file system")
    if call.name in ALWAYS_ASKED:
        return Rated(Level.HIGH, f"runs {call.name}")
    rule = _RULES.get(call.name)
    return rule(call) if rule else None


def _rm(call: Call) -> Verdict:
    options, operands = _split(call.texts)
    recursive = any(re.fullmatch(r"-(?=[a-z]*r)[a-z]+|--r[a-z]*", option.lower()) for option in options)
    if "--no-preserve-root" in options or (recursive and any(map(_is_root, operands))):
        return Blocked("deletes the whole file system")
    if recursive:
        return Rated(Level.HIGH, "deletes folders with all they hold")
    return _asked_if_computed(call, "deletes")


def _chmod(call: Call) -> Verdict:
    options, operands = _split(call.texts)
    open_to_all = [o for o in operands if re.fullmatch(r"[0-7]?777|(?=[ugo]*a)[ugoa]+[+=](?=\w*w)\w+|[+=]?rwx", o)]
    if open_to_all and any(o.lower() in ("-r", "--recursive") for o in options) and any(map(_is_root, operands)):
        return Blocked("opens the whole file system to everybody")
    if open_to_all or any(re.fullmatch(r"[4-7][0-7]{3}|[ugoa]*[+=](?=\w*s)\w+", o) for o in operands):
        return Rated(Level.HIGH, "gives away rights")
    return _asked_if_computed(call, "changes rights")


def _chown(call: Call) -> Verdict:
    options, _ = _split(call.texts)
    if any(re.fullmatch(r"-(?=[a-zA-Z]*R)[a-zA-Z]+|--r[a-z]*", option) for option in options):
        return Rated(Level.HIGH, "changes the owner of whole folders")
    return _asked_if_computed(call, "changes the owner")


def _kill(call: Call) -> Verdict:
    texts = [text.upper() for text in call.texts]
    hard = {"9", "KILL", "SIGKILL"}
    if any(text.lstrip("-SN") in hard | {"IGKILL"} for text in texts[:2] if text not in ("-S", "-N")):
        return Rated(Level.HIGH, "kills without a chance to save")
    return _asked_if_computed(call, "kills")


def _dd(call: Call) -> Verdict:
    if any(re.match(r"if=/dev/zero", text) for text in call.texts):
        return Blocked("overwrites with zeros")
    return Rated(Level.HIGH, "runs dd")


def _init(call: Call) -> Verdict:
    return Rated(Level.HIGH, "changes the run level") if call.texts else Rated(Level.MEDIUM)


def _systemctl(call: Call) -> Verdict:
    hard = {"disable", "stop", "mask", "kill", "poweroff", "reboot", "halt", "suspend", "isolate"}
    return _asked_if(call, bool(hard & set(call.texts)), "stops or disables a service")


def _launchctl(call: Call) -> Verdict:
    return _asked_if(call, bool({"unload", "remove", "bootout", "disable"} & set(call.texts)), "removes a service")


def _docker(call: Call) -> Verdict:
    return _asked_if(
        call, bool({"rm", "rmi", "prune", "kill", "down"} & set(call.texts)), "removes containers or images"
    )


def _git(call: Call) -> Verdict:
    texts = list(call.texts)
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        if option == "-c" or option.startswith(("--config-env", "--exec-path")):
            return Rated(Level.HIGH, "changes what git runs")
        if option in ("-C", "--git-dir", "--work-tree", "--namespace"):
            del texts[:1]
    verb, rest = (texts[0], texts[1:]) if texts else ("", [])
    short = [text for text in rest if re.fullmatch(r"-[A-Za-z]+", text)]
    forced = any("f" in text for text in short) or any(text.startswith("--f") for text in rest)
    match verb:
        case "push":
            gone = any(text.startswith(("+", ":", "--delete", "--mirror", "--prune", "-d")) for text in rest)
            return _asked_if(call, forced or gone, "overwrites the history of another repository")
        case "reset":
            return _asked_if(call, any(text.startswith("--h") for text in rest), "throws changes away")
        case "clean":
            return _asked_if(call, forced, "deletes files git does not know")
        case "branch" | "tag":
            return _asked_if(call, any("D" in text for text in short) or (forced and "-d" in short), "deletes a branch")
        case "filter-branch" | "bisect" | "submodule":
            return Rated(Level.HIGH, f"runs git {verb}")
        case _:
            return _asked_if_computed(call, "runs git") if not verb or "$" in verb else Rated(Level.MEDIUM)


def _curl(call: Call) -> Verdict:
    texts = call.texts
    for index, text in enumerate(texts):
        value = texts[index + 1] if index + 1 < len(texts) else ""
        if text.startswith("--up") or re.match(r"-[a-zA-Z#0-9]*T", text):
            return Blocked("sends a file to another machine")
        if re.match(r"--(?:data|json|form|url-query)", text) or re.match(r"-[a-zA-Z#0-9]*[dF]", text):
            given = text.partition("=")[2] if text.startswith("--") and "=" in text else f"{text} {value}"
            if re.search(r"[@<]", given):
                return Blocked("sends a file to another machine")
        if re.match(r"-[a-zA-Z]*K|--config", text):
            return Rated(Level.HIGH, "reads its options from a file")
    return _asked_if_computed(call, "sends what is not known before")


def _wget(call: Call) -> Verdict:
    if any(text.startswith(("--post-f", "--body-f")) for text in call.texts):
        return Blocked("sends a file to another machine")
    if any(text.startswith(("--use-askpass", "-e", "--execute", "--config")) for text in call.texts):
        return Rated(Level.HIGH, "changes what wget does")
    return _asked_if_computed(call, "sends what is not known before")


def _netcat(call: Call) -> Verdict:
    runs = any(re.match(r"-[a-z]*[ec]|--(?:sh-)?exec", text) for text in call.texts)
    if call.piped or call.pipes or call.redirected or runs:
        return Blocked("moves data over a raw connection")
    return Rated(Level.HIGH, "opens a raw connection")


def _name_lookup(call: Call) -> Verdict:
    if any(word.substitutes for word in call.arguments):
        return Blocked("sends data out in the names it looks up")
    return _asked_if_computed(call, "looks up what is not known before")


def _assigning(call: Call) -> Verdict:
    names = (re.split(r"[=+\[]", text, maxsplit=1)[0] for text in call.texts)
    changed = next(filter(steers, names), None)
    return Rated(Level.HIGH, f"changes {changed}") if changed else Rated(Level.MEDIUM)


def _source(call: Call) -> Verdict:
    text = call.texts[0] if call.arguments else ""
    strange = not text or call.piped or text.startswith("/dev/") or text == "-"
    return _asked_if(call, strange, "runs text that is not a file")


def _interpreter(call: Call) -> Verdict:
    operands = [text for text in call.texts if not text.startswith("-") or text == "-"]
    given = [text for text in call.texts if re.match(r"-[a-zA-Z]*[cemrp]|--(?:eval|print|version|help)|-V", text)]
    if (not operands and not given) or operands[:1] == ["-"] or "/dev/stdin" in operands:
        return Rated(Level.HIGH, "runs a program it reads from its input")
    if call.open_ended and (not operands or given):
        return Rated(Level.HIGH, "runs a program that is not known before")
    return _asked_if(call, any(word.substitutes for word in call.arguments), "runs a program that is not known before")


_RULES: Mapping[str, Callable[[Call], Verdict]] = {
    "rm": _rm,
    "rmdir": lambda call: _asked_if_computed(call, "deletes"),
    "unlink": lambda call: _asked_if_computed(call, "deletes"),
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
    "kill": _kill,
    "dd": _dd,
    "init": _init,
    "telinit": _init,
    "systemctl": _systemctl,
    "launchctl": _launchctl,
    "docker": _docker,
    "podman": _docker,
    "git": _git,
    "curl": _curl,
    "wget": _wget,
    "nc": _netcat,
    "ncat": _netcat,
    "netcat": _netcat,
    "dig": _name_lookup,
    "nslookup": _name_lookup,
    "host": _name_lookup,
    "source": _source,
    ".": _source,
    **dict.fromkeys(("export", "declare", "typeset", "readonly", "local", "unset"), _assigning),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "printf"), _assigning),
}


def rate_interpreter(call: Call) -> Verdict | None:
    """The verdict on Python, Perl and the like, which run what they are given."""
    return _interpreter(call) if INTERPRETER.fullmatch(call.name) else None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The strictest of some verdicts; `LOW` if there are none."""
    found: Verdict = Rated(Level.LOW)
    for verdict in verdicts:
        if isinstance(verdict, Blocked):
            return verdict
        if isinstance(found, Rated) and verdict.level > found.level:
            found = verdict
    return found


def _asked_if(call: Call, condition: bool, why: str) -> Verdict:
    return Rated(Level.HIGH, why) if condition else _asked_if_computed(call, why)


def _asked_if_computed(call: Call, why: str) -> Verdict:
    return Rated(Level.HIGH, f"{why}, with arguments not known before") if call.is_computed else Rated(Level.MEDIUM)


def _split(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options and operands; after `--` everything is an operand."""
    options: list[str] = []
    operands: list[str] = []
    for index, text in enumerate(texts):
        if text == "--":
            return options, operands + list(texts[index + 1 :])
        (options if text.startswith("-") and text != "-" else operands).append(text)
    return options, operands


def _is_root(operand: str) -> bool:
    return operand.startswith("/") and normpath(operand.rstrip("*?.") or "/").strip("/") == ""
