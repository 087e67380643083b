from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigError
from config.hosts import HostRule, host_rule, normal_host
from tests.support.settings import make_settings


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("example.com", HostRule("example.com", 443)),
        ("EXAMPLE.com.", HostRule("example.com", 443)),
        ("example.com:8443", HostRule("example.com", 8443)),
        ("*.example.com:80", HostRule("example.com", 80, below=True)),
        ("bücher.example", HostRule("xn--bcher-kva.example", 443)),
        ("1.1.1.1", HostRule("1.1.1.1", 443)),
        ("[2606:4700:0:0::1111]:80", HostRule("2606:4700::1111", 80)),
        ("_dmarc.example.com", HostRule("_dmarc.example.com", 443)),
    ],
)
def test_a_rule_names_a_host_and_a_port(text: str, rule: HostRule) -> None:
    assert host_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        *("*", "*.", "*.*", "*.com", "**.example.com", "ex*mple.com", "", ".", ":443", "example.com:", "example.com:0"),
        *("example.com:65536", "example.com:443:443", "https://example.com", "example.com/path", "me@example.com"),
        *("exa mple.com", "example..com", "-example.com", "localhost", "intranet", "a" * 64 + ".com", "a.b\n"),
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[fe80::1%eth0]", "*.1.1.1.1", "::1", "[example.com"),
        *("127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "1.1.1.1."),
    ],
)
def test_what_is_no_host_of_the_internet_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        host_rule(text)


@pytest.mark.parametrize(
    ("rule", "host", "port", "covered"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 80, False),
        ("example.com", "www.example.com", 443, False),
        ("example.com", "notexample.com", 443, False),
        ("example.com", "example.com.evil.net", 443, False),
        ("*.example.com", "www.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "notexample.com", 443, False),
        ("*.example.com:80", "www.example.com", 443, False),
    ],
)
def test_a_rule_covers_what_it_names_and_nothing_else(rule: str, host: str, port: int, covered: bool) -> None:
    assert host_rule(rule).covers(host, port) is covered


@given(st.text(max_size=80) | st.text(alphabet="aA1.:*[]-%xé ", max_size=30))
def test_a_normal_host_stays_as_it_is(text: str) -> None:
    try:
        name = normal_host(text)
    except ValueError:
        return

    assert name.isascii()
    assert normal_host(name) == name
    assert not set(name) & set("/@?#% \r\n*")


def test_hosts_of_the_setting_are_listed_by_comma_or_in_the_file(tmp_path: Path) -> None:
    variables = {"SANDBOX_ALLOW_HOSTS": "pypi.org, *.example.com:8443 ,"}

    assert make_settings(tmp_path).sandbox.allow_hosts == ()
    assert make_settings(tmp_path, variables).sandbox.allow_hosts == (
        HostRule("pypi.org", 443),
        HostRule("example.com", 8443, below=True),
    )
    (tmp_path / "config.toml").write_text('[sandbox]\nallow_hosts = ["pypi.org"]\n')
    assert make_settings(tmp_path).sandbox.allow_hosts == (HostRule("pypi.org", 443),)


@pytest.mark.parametrize("value", ["*", "pypi.org, *", "https://pypi.org", "127.0.0.1"])
def test_a_fault_of_the_setting_says_what_is_allowed(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_settings(tmp_path, {"SANDBOX_ALLOW_HOSTS": value})

    (fault,) = caught.value.faults
    assert fault.name == "SANDBOX_ALLOW_HOSTS"
    assert value in fault.problem
    assert "*.example.com" in fault.problem
