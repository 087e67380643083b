"""The settings, as frozen values. The defaults stand in `default.toml`; None here means: not set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from config.fields import (
    Allowed,
    ClockTime,
    Count,
    DatabaseUrl,
    HostRules,
    HttpUrl,
    Id,
    ModelRefs,
    Named,
    Pause,
    Seconds,
    Word,
    Words,
    Zone,
)
from config.paths import workspace_of


class Section(BaseModel):
    """A frozen group of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Extension(Section):
    """Settings that a channel or a provider brings along. It owns their defaults, too.

    It is enabled if any of `enabled_by` is set, or if `enabled_by` is empty.
    """

    enabled_by: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def gaps(cls, given: Mapping[str, object]) -> Iterable[tuple[str, str]]:
        """Fields that are not `given` although others that are need them, each with the reason."""
        return ()


class DmPolicy(Word):
    """Whose direct messages are answered, besides the owner's and those approved."""

    PAIRING = "pairing"
    ALLOWLIST = "allowlist"
    OPEN = "open"


class GroupPolicy(Word):
    """Whose messages in shared chats are answered."""

    ALLOWLIST = "allowlist"
    OPEN = "open"
    DISABLED = "disabled"


class GroupTrigger(Word):
    """Which messages of a shared chat are for the bot."""

    MENTION = "mention"
    ALL = "all"


class AccessSettings(Extension):
    """Who may talk to the bot on one channel, and when it answers in shared chats.

    `allow_from` holds ids, names (with or without `@`, any case) or `*`; `groups`, if not empty, the only shared chats.
    """

    owner_id: Annotated[Id | None, Field(description="the operator's id there: may always talk")] = None
    dm_policy: Annotated[DmPolicy, Field(description="whose direct messages are answered")] = DmPolicy.PAIRING
    allow_from: Annotated[Words, Field(description="ids, names or * that may talk to the bot")] = ()
    group_policy: Annotated[GroupPolicy, Field(description="whose messages in shared chats are answered")] = (
        GroupPolicy.ALLOWLIST
    )
    groups: Annotated[Words, Field(description="the only shared chats in which the bot answers; not set: all")] = ()
    group_trigger: Annotated[GroupTrigger, Field(description="which messages of a shared chat are for the bot")] = (
        GroupTrigger.MENTION
    )
    streaming: Annotated[bool, Field(description="show the answer while it is written")] = True


class BusyMode(Word):
    """What a message does while a turn runs."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class LocalToolsFor(Word):
    """Who is offered shell, code and file tools."""

    OPERATOR = "operator"
    EVERYONE = "everyone"


class AgentSettings(Section):
    """`[agent]`, `AGENT_*`. `context_limit_tokens` None: the model's."""

    name: Annotated[str, Field(min_length=1, max_length=64), Allowed("1 to 64 characters")]
    timezone: Zone
    max_tool_iterations: Annotated[int, Field(ge=1, le=500)]
    auto_approve_tools: bool
    approval_timeout: Annotated[Seconds, Named(key="approval_timeout_secs")]
    local_tools_for: LocalToolsFor
    allow_local_tools: bool
    context_limit_tokens: Annotated[int, Field(ge=1000)] | None = None
    compaction_threshold: Annotated[
        float,
        Field(allow_inf_nan=False),
        AfterValidator(lambda share: min(max(share, 0.5), 0.95)),
        Allowed("a share of the context limit, kept between 0.5 and 0.95"),
    ]
    busy_mode: BusyMode
    max_parallel_jobs: Count


class LLMSettings(Section):
    """`[llm]`, `LLM_*`. `provider` is the one in use; `model` None: that provider's own choice."""

    provider: Annotated[str, Allowed("auto, or the name of a provider")]
    model: str | None = None
    cheap_model: str | None = None
    fallback: ModelRefs
    timeout: Annotated[Seconds, Named(key="timeout_secs")]
    max_retries: Annotated[int, Field(ge=0, le=20)]
    circuit_breaker: bool
    smart_routing: bool
    response_cache: bool


class LimitSettings(Section):
    """`[limits]`. None: no limit; 0 refuses everything."""

    max_cost_per_day_cents: Annotated[Decimal | None, Field(ge=0), Named(env="MAX_COST_PER_DAY_CENTS")] = None
    max_actions_per_hour: Annotated[int | None, Field(ge=0), Named(env="MAX_ACTIONS_PER_HOUR")] = None


class SandboxBackend(Word):
    """What confines the shell. `OFF` runs it bare, by the operator's explicit choice."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    CONTAINER = "container"
    OFF = "off"


class ContainerBackend(Word):
    """What runs jobs in containers. `AUTO` takes the first that works."""

    AUTO = "auto"
    PODMAN = "podman"
    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    OFF = "off"


class SandboxSettings(Section):
    """`[sandbox]`, `SANDBOX_*`. `allow_hosts` empty: commands have no network."""

    backend: SandboxBackend
    allow_hosts: HostRules
    container: ContainerBackend
    container_image: str | None = None
    container_rootfs: str | None = None


class HeartbeatSettings(Section):
    """`[heartbeat]`, `HEARTBEAT_*`. Quiet hours are both set or both None; `fire_at` replaces the interval."""

    enabled: bool
    interval: Annotated[Seconds, Named(key="interval_secs")]
    fire_at: ClockTime | None = None
    quiet_start: Annotated[int | None, Field(ge=0, le=23)] = None
    quiet_end: Annotated[int | None, Field(ge=0, le=23)] = None
    timezone: Zone
    notify_channel: str | None = None
    notify_user: Id | None = None


class RoutineSettings(Section):
    """`[routines]`, `ROUTINES_*`."""

    enabled: bool
    cron_interval: Seconds
    max_concurrent: Count
    default_cooldown: Pause
    max_tokens: Count
    lightweight_tools: bool
    lightweight_max_iterations: Annotated[int, Field(ge=1, le=5)]


class WebSettings(Section):
    """`[web]`, `WEB_*`. `port_is_explicit`: a busy port that was set is an error, a busy default moves on."""

    derived: ClassVar[frozenset[str]] = frozenset({"port_is_explicit"})

    enabled: bool
    host: str
    port: Annotated[int, Field(ge=0, le=65535)]
    port_is_explicit: bool = False
    token: SecretStr | None = None
    webhook_secret: Annotated[SecretStr | None, Named(env="WEBHOOK_SECRET")] = None

    @property
    def takes_webhooks(self) -> bool:
        """Whether other programs can post: there is a server, and a secret that they sign with."""
        secret = self.webhook_secret
        return self.enabled and secret is not None and bool(secret.get_secret_value().strip())


class LogLevel(Word):
    """The least important records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Word):
    """How a record is written."""

    CONSOLE = "console"
    JSON = "json"


class LogSettings(Section):
    """`[log]`, `LOG_*`. `format` None: `console` on a terminal, else `json`."""

    level: LogLevel
    format: LogFormat | None = None


class SafetySettings(Section):
    """`[safety]`, `SAFETY_*`. `max_output_length` is in bytes."""

    max_output_length: Annotated[int, Field(ge=1000)]
    injection_check_enabled: bool


class SkillSettings(Section):
    """`[skills]`, `SKILLS_*`."""

    max_active: Annotated[int, Field(ge=0)]
    max_context_tokens: Annotated[int, Field(ge=0)]


class EmbeddingProvider(Word):
    """Who gives the vectors for search by meaning."""

    OFF = "off"
    OPENAI = "openai"


class MemorySettings(Section):
    """`[memory]`, `MEMORY_*`. `embedding_base_url` None: the server and key of `[llm.openai]`."""

    embedding_provider: EmbeddingProvider
    embedding_model: str | None = None
    embedding_dimensions: Annotated[int | None, Field(ge=1, le=8192)] = None
    embedding_base_url: HttpUrl | None = None
    embedding_api_key: SecretStr | None = None


class MemoryHygieneSettings(Section):
    """`[memory_hygiene]`, `MEMORY_HYGIENE_*`."""

    enabled: bool
    daily_retention_days: Count
    conversation_retention_days: Count
    cadence_hours: Count


class PluginSettings(Section):
    """`[plugins]`, `PLUGINS_*`."""

    disabled: Words


class SessionSettings(Section):
    """`[session]`, `SESSION_*`."""

    idle_timeout: Annotated[Seconds, Named(key="idle_timeout_secs")]


class MetricsSettings(Section):
    """`[metrics]`, `METRICS_*`."""

    enabled: bool


class SecretsSettings(Section):
    """`[secrets]`, `SECRETS_*`. `master_key` None: the system's keychain, else a file in the home."""

    master_key: Annotated[SecretStr | None, Field(min_length=32), Allowed("at least 32 characters")] = None


class DatabaseSettings(Section):
    """`[database]`, `DATABASE_*`. `url` None: a SQLite file in the home."""

    url: DatabaseUrl | None = None


class Settings(Section):
    """Everything an operator can set. `channels` holds the enabled ones only, `providers` all of them.

    `set_names` are the variables' names of all settings that were set, wherever; `warnings` are sentences for the log.
    """

    home: Path
    agent: AgentSettings
    llm: LLMSettings
    limits: LimitSettings
    sandbox: SandboxSettings
    heartbeat: HeartbeatSettings
    routines: RoutineSettings
    web: WebSettings
    log: LogSettings
    safety: SafetySettings
    skills: SkillSettings
    memory: MemorySettings
    memory_hygiene: MemoryHygieneSettings
    plugins: PluginSettings
    session: SessionSettings
    metrics: MetricsSettings
    secrets: SecretsSettings
    database: DatabaseSettings
    channels: Mapping[str, AccessSettings]
    providers: Mapping[str, Extension]
    set_names: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def workspace(self) -> Path:
        """The folder of the workspace."""
        return workspace_of(self.home)

    @property
    def database_url(self) -> str | None:
        """The database's address, or None for the SQLite file in the home."""
        return None if self.database.url is None else self.database.url.get_secret_value()


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
"""The model of each section of the file, extensions apart."""
