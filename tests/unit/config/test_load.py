from __future__ import annotations

from datetime import time, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from agent.llm.settings import OpenAISettings
from channels.settings import SlackSettings, TelegramMode, TelegramSettings
from config.errors import ConfigError
from config.features import without_effect
from config.fields import ModelRef
from config.load import load_settings, machine_zone
from config.settings import BusyMode, DmPolicy, LogLevel, SandboxBackend, Settings
from tests.support.settings import EXTENSIONS, make_settings


def load(home: Path, file: str = "", /, **variables: str) -> Settings:
    if file:
        (home / "config.toml").write_text(file)
        (home / "config.toml").chmod(0o600)
    return make_settings(home, variables)


def faults(home: Path, file: str = "", /, **variables: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load(home, file, **variables)
    return {fault.name: fault.problem for fault in caught.value.faults}


class TestOrder:
    def test_nothing_set_gives_the_documented_defaults(self, tmp_path: Path) -> None:
        settings = load(tmp_path)

        assert settings.home == tmp_path
        assert settings.workspace == tmp_path / "workspace"
        assert settings.database_url is None
        assert settings.agent.approval_timeout == timedelta(days=1)
        assert settings.agent.timezone.key == "UTC"
        assert settings.llm.provider == "local"
        assert settings.limits.max_cost_per_day_cents is None
        assert settings.sandbox.backend is SandboxBackend.AUTO
        assert (settings.web.host, settings.web.port, settings.web.port_is_explicit) == ("127.0.0.1", 8080, False)
        assert settings.channels == {}
        assert set(settings.providers) == {"anthropic", "openai", "local"}
        assert settings.set_names == {"OPTIMCLAW_HOME"}
        assert settings.warnings == ()

    def test_file_wins_over_default_and_environment_wins_over_file(self, tmp_path: Path) -> None:
        file = '[agent]\nname = "fromfile"\nmax_tool_iterations = 7\n'

        settings = load(tmp_path, file, AGENT_NAME="fromenv")

        assert settings.agent.name == "fromenv"
        assert settings.agent.max_tool_iterations == 7
        assert settings.agent.max_parallel_jobs == 5
        assert settings.set_names == {"AGENT_NAME", "AGENT_MAX_TOOL_ITERATIONS", "OPTIMCLAW_HOME"}

    def test_empty_and_blank_values_are_not_set(self, tmp_path: Path) -> None:
        settings = load(tmp_path, '[agent]\nname = "kept"\n[llm]\nmodel = ""\n', AGENT_NAME="", TELEGRAM_BOT_TOKEN="  ")

        assert settings.agent.name == "kept"
        assert settings.llm.model is None
        assert settings.channels == {}

    def test_port_wins_over_web_port_and_makes_the_port_explicit(self, tmp_path: Path) -> None:
        settings = load(tmp_path, "[web]\nport = 1\n", WEB_PORT="2", PORT="3000")

        assert (settings.web.port, settings.web.port_is_explicit) == (3000, True)

    def test_port_set_in_the_file_is_explicit_even_if_it_is_the_default(self, tmp_path: Path) -> None:
        assert load(tmp_path, "[web]\nport = 8080\n").web.port_is_explicit

    def test_dotenv_never_wins_over_a_real_variable(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text(f'AGENT_NAME=dot\nLLM_MODEL="m one"\nOPTIMCLAW_HOME={tmp_path / "h"}\n')

        settings = load_settings({"AGENT_NAME": "real"}, extensions=EXTENSIONS, cwd=tmp_path)

        assert settings.agent.name == "real"
        assert settings.llm.model == "m one"
        assert settings.home == tmp_path / "h"

    def test_dotenv_lines_that_make_no_sense_are_named_by_number_alone(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("AGENT_NAME=x\n\nhunter2 is my password\n")

        with pytest.raises(ConfigError, match=r"\.env line 3: allowed: NAME=VALUE") as caught:
            load_settings({}, extensions=EXTENSIONS, cwd=tmp_path)

        assert "hunter2" not in str(caught.value)

    def test_home_may_start_with_a_tilde_or_in_the_working_folder(self, tmp_path: Path) -> None:
        environ = {"HOME": str(tmp_path / "user"), "OPTIMCLAW_HOME": "state"}

        relative = load_settings(environ, extensions=EXTENSIONS, cwd=tmp_path)
        tilde = load_settings(environ | {"OPTIMCLAW_HOME": "~/state"}, extensions=EXTENSIONS, cwd=tmp_path)
        default = load_settings({"HOME": str(tmp_path / "user")}, extensions=EXTENSIONS, cwd=tmp_path)

        assert relative.home == tmp_path / "state"
        assert tilde.home == tmp_path / "user" / "state"
        assert default.home == tmp_path / "user" / ".optimclaw"


class TestValues:
    def test_words_ignore_case_and_numbers_of_seconds_become_durations(self, tmp_path: Path) -> None:
        settings = load(
            tmp_path,
            LOG_LEVEL="DEBUG",
            AGENT_BUSY_MODE="Steer",
            LLM_TIMEOUT_SECS="1.5",
            ROUTINES_DEFAULT_COOLDOWN="0",
            AGENT_AUTO_APPROVE_TOOLS="Yes",
            MAX_COST_PER_DAY_CENTS="12.5",
            HEARTBEAT_FIRE_AT="7:05",
            HEARTBEAT_QUIET_START="22",
            HEARTBEAT_QUIET_END="0",
        )

        assert settings.log.level is LogLevel.DEBUG
        assert settings.agent.busy_mode is BusyMode.STEER
        assert settings.llm.timeout == timedelta(seconds=1.5)
        assert settings.routines.default_cooldown == timedelta(0)
        assert settings.agent.auto_approve_tools
        assert settings.limits.max_cost_per_day_cents == Decimal("12.5")
        assert settings.heartbeat.fire_at == time(7, 5)
        assert (settings.heartbeat.quiet_start, settings.heartbeat.quiet_end) == (22, 0)

    def test_lists_are_comma_separated_and_lose_blanks(self, tmp_path: Path) -> None:
        telegram = load(tmp_path, TELEGRAM_BOT_TOKEN="1:a", TELEGRAM_ALLOW_FROM=" 12 ,, @Bob ,").channels["telegram"]
        blanks = load(tmp_path, TELEGRAM_BOT_TOKEN="1:a", TELEGRAM_ALLOW_FROM=" , ,").channels["telegram"]

        assert telegram.allow_from == ("12", "@Bob")
        assert blanks.allow_from == ()

    def test_ids_may_be_bare_numbers_in_the_file(self, tmp_path: Path) -> None:
        file = '[channels.telegram]\nbot_token = "1:a"\nowner_id = 700100\nallow_from = [5, "@bob", " "]\n'

        telegram = load(tmp_path, file).channels["telegram"]

        assert telegram.owner_id == "700100"
        assert telegram.allow_from == ("5", "@bob")

    def test_models_of_the_fallback_keep_colons_of_their_names(self, tmp_path: Path) -> None:
        settings = load(tmp_path, OPENAI_BASE_URL="http://127.0.0.1:1", LLM_FALLBACK="openai:llama3:8b, local:tiny")

        assert settings.llm.fallback == (ModelRef("openai", "llama3:8b"), ModelRef("local", "tiny"))

    @pytest.mark.parametrize(("given", "taken"), [("0.1", 0.5), ("0.6", 0.6), ("0.99", 0.95), ("-3", 0.5)])
    def test_compaction_threshold_is_clamped(self, tmp_path: Path, given: str, taken: float) -> None:
        settings = load(tmp_path, AGENT_COMPACTION_THRESHOLD=given)

        assert settings.agent.compaction_threshold == taken
        assert bool(settings.warnings) == (float(given) != taken)

    def test_heartbeat_follows_the_agents_time_zone_unless_it_has_its_own(self, tmp_path: Path) -> None:
        follows = load(tmp_path, AGENT_TIMEZONE="Asia/Tokyo").heartbeat
        own = load(tmp_path, AGENT_TIMEZONE="Asia/Tokyo", HEARTBEAT_TIMEZONE="Europe/Berlin").heartbeat

        assert (follows.timezone.key, own.timezone.key) == ("Asia/Tokyo", "Europe/Berlin")

    def test_machine_zone_is_taken_from_tz_then_from_the_clock_file_then_utc(self, tmp_path: Path) -> None:
        link = tmp_path / "localtime"
        (tmp_path / "zoneinfo" / "Europe").mkdir(parents=True)
        (tmp_path / "zoneinfo" / "Europe" / "Paris").touch()
        link.symlink_to(tmp_path / "zoneinfo" / "Europe" / "Paris")

        assert machine_zone({"TZ": ":Asia/Tokyo"}, link) == "Asia/Tokyo"
        assert machine_zone({"TZ": "CET-1CEST"}, link) == "Europe/Paris"
        assert machine_zone({}, tmp_path / "none") == "UTC"

    def test_addresses_get_the_slash_their_library_needs(self, tmp_path: Path) -> None:
        settings = load(
            tmp_path,
            TELEGRAM_BOT_TOKEN="1:a",
            TELEGRAM_API_BASE_URL="http://127.0.0.1:1/",
            SLACK_BOT_TOKEN="xoxb-1",
            SLACK_APP_TOKEN="xapp-1",
            SLACK_API_BASE_URL="http://127.0.0.1:2/api",
        )

        telegram, slack = settings.channels["telegram"], settings.channels["slack"]
        assert isinstance(telegram, TelegramSettings)
        assert isinstance(slack, SlackSettings)
        assert (telegram.api_base_url, slack.api_base_url) == ("http://127.0.0.1:1", "http://127.0.0.1:2/api/")

    def test_settings_are_frozen_and_hide_secrets_in_their_repr(self, tmp_path: Path) -> None:
        url = "postgresql://bot:hunter2@127.0.0.1/x"
        settings = load(tmp_path, TELEGRAM_BOT_TOKEN="123:topsecret", DATABASE_URL=url, WEB_TOKEN="doorkey")

        with pytest.raises(ValidationError):
            settings.agent.__setattr__("name", "other")
        assert settings.database_url == url
        assert not any(secret in repr(settings) for secret in ("topsecret", "hunter2", "doorkey"))


class TestSecretFiles:
    def test_secret_is_read_from_the_file_its_twin_names(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("123:abc\n")

        by_variable = load(tmp_path, TELEGRAM_BOT_TOKEN_FILE=str(tmp_path / "token"))
        by_file = load(tmp_path, '[channels.telegram]\nbot_token_file = "token"\n')

        for settings in (by_variable, by_file):
            telegram = settings.channels["telegram"]
            assert isinstance(telegram, TelegramSettings)
            assert telegram.bot_token == SecretStr("123:abc")
            assert "TELEGRAM_BOT_TOKEN" in settings.set_names

    def test_missing_and_empty_secret_files_are_faults(self, tmp_path: Path) -> None:
        (tmp_path / "empty").write_text("\n")

        found = faults(
            tmp_path, OPENAI_API_KEY_FILE=str(tmp_path / "none"), TELEGRAM_BOT_TOKEN_FILE=str(tmp_path / "empty")
        )

        assert found == {
            "OPENAI_API_KEY_FILE": "the file cannot be read: No such file or directory",
            "TELEGRAM_BOT_TOKEN_FILE": "the file is empty",
        }

    def test_secret_and_its_file_together_are_a_fault(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("a")
        file = '[llm.openai]\napi_key = "a"\napi_key_file = "token"\n'

        found = faults(tmp_path, file, WEB_TOKEN="x", WEB_TOKEN_FILE=str(tmp_path / "token"))

        assert set(found) == {"WEB_TOKEN", "[llm.openai] api_key"}

    def test_only_secrets_have_such_a_twin(self, tmp_path: Path) -> None:
        assert "[agent] name_file" in faults(tmp_path, '[agent]\nname_file = "x"\n')


class TestFaults:
    def test_all_faults_are_reported_at_once_by_the_names_that_were_used(self, tmp_path: Path) -> None:
        file = '[agent]\ntimezone = "Mars/Base"\n[heartbeat]\nfire_at = "25:00"\n[web]\nhost = "0.0.0.0"\n'

        found = faults(tmp_path, file, WEB_PORT="99999", LOG_LEVEL="loud", LLM_PROVIDER="anthropic")

        assert found == {
            "[agent] timezone": "found 'Mars/Base'; allowed: an IANA time zone such as Europe/Berlin",
            "[heartbeat] fire_at": "found '25:00'; allowed: a time of day as HH:MM, 00:00 to 23:59",
            "[web] host": "found '0.0.0.0' without WEB_TOKEN; allowed: 127.0.0.1, or any host with WEB_TOKEN",
            "WEB_PORT": "found '99999'; allowed: a whole number from 0 to 65535",
            "LOG_LEVEL": "found 'loud'; allowed: debug, info, warning, error",
            "LLM_PROVIDER": "found 'anthropic', which needs ANTHROPIC_API_KEY; allowed: set it, or another provider",
        }

    def test_message_lists_each_fault_on_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, WEB_PORT="x", LOG_LEVEL="loud")

        lines = str(caught.value).splitlines()
        assert lines[0] == "The configuration has 2 faults:"
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["WEB_PORT", "LOG_LEVEL"]

    @pytest.mark.parametrize(
        ("file", "name", "hint"),
        [
            ("[agent]\nnam = 1\n", "[agent] nam", "did you mean name?"),
            ("[agnt]\nname = 1\n", "agnt (in config.toml)", "did you mean agent?"),
            ("agent_name = 1\n", "agent_name (in config.toml)", "did you mean [agent] name?"),
            ('[channels.telegramm]\nbot_token = "1"\n', "[channels] telegramm", "did you mean telegram?"),
            ('[llm.opnai]\napi_key = "1"\n', "[llm] opnai", "did you mean openai?"),
            ('home = "/x"\n', "home (in config.toml)", "no such setting"),
            ("[web]\nport_is_explicit = true\n", "[web] port_is_explicit", "no such setting"),
            ("agent = 1\n", "agent (in config.toml)", "allowed: a table, [agent]"),
        ],
    )
    def test_unknown_names_in_the_file_are_faults_with_the_nearest_name(
        self, tmp_path: Path, file: str, name: str, hint: str
    ) -> None:
        assert hint in faults(tmp_path, file)[name]

    def test_file_that_is_no_toml_or_no_text_is_a_fault(self, tmp_path: Path) -> None:
        assert "is not TOML" in faults(tmp_path, "[agent\n")["config.toml"]

        (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
        assert faults(tmp_path)["config.toml"] == "the file is not UTF-8 text"

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("AGENT_TIMEZONE", "Europe"),
            ("AGENT_TIMEZONE", "../etc/passwd"),
            ("AGENT_MAX_TOOL_ITERATIONS", "0"),
            ("AGENT_AUTO_APPROVE_TOOLS", "perhaps"),
            ("AGENT_COMPACTION_THRESHOLD", "nan"),
            ("LLM_TIMEOUT_SECS", "inf"),
            ("LLM_TIMEOUT_SECS", "nan"),
            ("LLM_TIMEOUT_SECS", "0"),
            ("LLM_FALLBACK", "openai"),
            ("LLM_PROVIDER", "opnai"),
            ("MAX_ACTIONS_PER_HOUR", "-1"),
            ("MAX_COST_PER_DAY_CENTS", "NaN"),
            ("HEARTBEAT_QUIET_START", "24"),
            ("HEARTBEAT_FIRE_AT", "12:60"),
            ("ROUTINES_LIGHTWEIGHT_MAX_ITERATIONS", "6"),
            ("TELEGRAM_DM_POLICY", "everyone"),
            ("TELEGRAM_API_BASE_URL", "api.telegram.org"),
            ("DISCORD_GATEWAY_URL", "https://x"),
            ("OPENAI_BASE_URL", "http://host:port/v1"),
            ("SECRETS_MASTER_KEY", "short"),
            ("DATABASE_URL", "mysql://x/y"),
        ],
    )
    def test_value_that_is_not_allowed_is_refused(self, tmp_path: Path, variable: str, value: str) -> None:
        assert "allowed: " in faults(tmp_path, **{variable: value})[variable]

    def test_secrets_are_masked_in_faults(self, tmp_path: Path) -> None:
        found = faults(
            tmp_path,
            DATABASE_URL="mysql://bot:hunter2@host/x",
            SECRETS_MASTER_KEY="topsecret",
            TELEGRAM_MODE="123456789:AAH-abcdefghijklmnopqrstuvwxyz01234",
            OPENAI_BASE_URL="ftp://me:hunter2@host",
        )

        assert set(found) == {"DATABASE_URL", "SECRETS_MASTER_KEY", "TELEGRAM_MODE", "OPENAI_BASE_URL"}
        assert not any(secret in str(found) for secret in ("hunter2", "topsecret", "AAH-"))


class TestAcrossSettings:
    def test_page_for_other_machines_needs_a_token(self, tmp_path: Path) -> None:
        assert "WEB_HOST" in faults(tmp_path, WEB_HOST="0.0.0.0")
        assert load(tmp_path, WEB_HOST="0.0.0.0", WEB_TOKEN="t").web.host == "0.0.0.0"
        assert load(tmp_path, WEB_HOST="0.0.0.0", WEB_ENABLED="no").web.enabled is False

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"])
    def test_page_on_loopback_needs_none(self, tmp_path: Path, host: str) -> None:
        assert load(tmp_path, WEB_HOST=host).web.token is None

    def test_quiet_hours_need_both_ends(self, tmp_path: Path) -> None:
        assert set(faults(tmp_path, HEARTBEAT_QUIET_START="22")) == {"HEARTBEAT_QUIET_END"}
        assert set(faults(tmp_path, HEARTBEAT_QUIET_END="6")) == {"HEARTBEAT_QUIET_START"}

    def test_cross_checks_are_made_even_where_the_section_has_other_faults(self, tmp_path: Path) -> None:
        found = faults(tmp_path, WEB_HOST="10.0.0.1", WEB_PORT="x", HEARTBEAT_QUIET_END="99")

        assert set(found) == {"WEB_HOST", "WEB_PORT", "HEARTBEAT_QUIET_END", "HEARTBEAT_QUIET_START"}

    def test_telegram_webhook_needs_an_address_and_a_secret(self, tmp_path: Path) -> None:
        assert set(faults(tmp_path, TELEGRAM_BOT_TOKEN="1:a", TELEGRAM_MODE="Webhook")) == {
            "TELEGRAM_WEBHOOK_URL",
            "TELEGRAM_WEBHOOK_SECRET",
        }
        complete = load(
            tmp_path,
            TELEGRAM_BOT_TOKEN="1:a",
            TELEGRAM_MODE="webhook",
            TELEGRAM_WEBHOOK_URL="https://bot.example/telegram",
            TELEGRAM_WEBHOOK_SECRET="abc_-1",
        ).channels["telegram"]
        assert isinstance(complete, TelegramSettings)
        assert complete.mode is TelegramMode.WEBHOOK

    @pytest.mark.parametrize(
        ("variables", "missing"),
        [
            ({"SLACK_BOT_TOKEN": "xoxb-1"}, "SLACK_APP_TOKEN"),
            ({"SLACK_APP_TOKEN": "xapp-1"}, "SLACK_BOT_TOKEN"),
            ({"SLACK_SIGNING_SECRET": "s"}, "SLACK_BOT_TOKEN"),
        ],
    )
    def test_half_of_slacks_credentials_is_a_fault_that_names_the_other(
        self, tmp_path: Path, variables: dict[str, str], missing: str
    ) -> None:
        assert set(faults(tmp_path, **variables)) == {missing}

    @pytest.mark.parametrize("second", ["SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"])
    def test_slack_works_with_either_second_half(self, tmp_path: Path, second: str) -> None:
        assert "slack" in load(tmp_path, SLACK_BOT_TOKEN="xoxb-1", **{second: "x"}).channels

    def test_channels_without_token_are_off_but_their_settings_are_checked(self, tmp_path: Path) -> None:
        assert load(tmp_path, TELEGRAM_OWNER_ID="5").channels == {}
        assert "TELEGRAM_DM_POLICY" in faults(tmp_path, TELEGRAM_DM_POLICY="nobody")

    def test_channel_is_on_with_its_token(self, tmp_path: Path) -> None:
        settings = load(tmp_path, DISCORD_BOT_TOKEN="x", DISCORD_DM_POLICY="open")

        assert list(settings.channels) == ["discord"]
        assert settings.channels["discord"].dm_policy is DmPolicy.OPEN


class TestProvider:
    @pytest.mark.parametrize(
        ("variables", "provider"),
        [
            ({}, "local"),
            ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai"),
            ({"OPENAI_API_KEY": "k"}, "openai"),
            ({"OPENAI_API_KEY": "k", "LLM_PROVIDER": "Auto"}, "openai"),
            ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic"),
            ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "local"),
            ({"ANTHROPIC_API_KEY": "k", "LLM_PROVIDER": "Local"}, "local"),
            ({"OPENAI_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "k", "LLM_PROVIDER": "openai"}, "openai"),
        ],
    )
    def test_provider_is_the_one_asked_for_or_the_first_that_can_be_used(
        self, tmp_path: Path, variables: dict[str, str], provider: str
    ) -> None:
        assert load(tmp_path, **variables).llm.provider == provider

    def test_provider_asked_for_without_its_key_is_a_fault(self, tmp_path: Path) -> None:
        assert "OPENAI_API_KEY or OPENAI_BASE_URL" in faults(tmp_path, LLM_PROVIDER="openai")["LLM_PROVIDER"]

    def test_unknown_provider_is_a_fault_that_lists_those_there_are(self, tmp_path: Path) -> None:
        problem = faults(tmp_path, '[llm]\nprovider = "gpt"\n')["[llm] provider"]

        assert problem == "found 'gpt'; allowed: auto, anthropic, openai, local"

    def test_fallback_to_a_provider_without_key_is_a_fault(self, tmp_path: Path) -> None:
        assert "needs ANTHROPIC_API_KEY" in faults(tmp_path, LLM_FALLBACK="anthropic:x,local:y")["LLM_FALLBACK"]

    def test_all_providers_settings_are_at_hand(self, tmp_path: Path) -> None:
        openai = load(tmp_path, OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k").providers["openai"]

        assert isinstance(openai, OpenAISettings)
        assert openai.api_key == SecretStr("k")


class TestWarnings:
    def test_variables_that_are_nearly_settings_are_named_with_the_nearest(self, tmp_path: Path) -> None:
        variables = {"TELEGRAM_BOT_TOKE": "1", "HEARTBEAT_ENABLE": "1", "DISCORD_TOKEN": "1", "OPTIMCLAW_DIR": "x"}

        warnings = load(tmp_path, **variables).warnings

        assert warnings == (
            "DISCORD_TOKEN is not a setting and does nothing; did you mean DISCORD_BOT_TOKEN?",
            "HEARTBEAT_ENABLE is not a setting and does nothing; did you mean HEARTBEAT_ENABLED?",
            "OPTIMCLAW_DIR is not a setting and does nothing",
            "TELEGRAM_BOT_TOKE is not a setting and does nothing; did you mean TELEGRAM_BOT_TOKEN?",
        )

    def test_other_programs_variables_are_not_mistaken_for_ours(self, tmp_path: Path) -> None:
        foreign = {"SESSION_MANAGER": "x", "OPENAI_ORG_ID": "x", "LOGNAME": "x", "WEBKIT_DEBUG": "x", "AGENT_ID": "x"}

        assert load(tmp_path, **foreign).warnings == ()

    def test_file_with_secrets_that_others_can_read_is_pointed_out(self, tmp_path: Path) -> None:
        file = tmp_path / "config.toml"
        file.write_text('[web]\ntoken = "x"\n')
        file.chmod(0o644)

        assert "chmod 600" in load(tmp_path).warnings[0]

    def test_findings_sent_to_a_channel_that_is_off_are_pointed_out(self, tmp_path: Path) -> None:
        off = load(tmp_path, HEARTBEAT_NOTIFY_CHANNEL="telegram").warnings
        on = load(tmp_path, HEARTBEAT_NOTIFY_CHANNEL="telegram", TELEGRAM_BOT_TOKEN="1:a").warnings

        assert off == ("HEARTBEAT_NOTIFY_CHANNEL is 'telegram', and no such channel is enabled",)
        assert on == ()

    def test_settings_without_effect_yet_are_known(self, tmp_path: Path) -> None:
        settings = load(tmp_path, DATABASE_URL="postgresql://localhost/bot", AGENT_BUSY_MODE="steer", LLM_MODEL="x")

        assert without_effect(settings) == ("DATABASE_URL",)
        assert without_effect(load(tmp_path, AGENT_BUSY_MODE="queue")) == ()
