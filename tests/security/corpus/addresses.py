"""Addresses that lead where no tool may go, and such as are read in two ways."""

from __future__ import annotations

LOCAL = (
    "https://127.0.0.1/", "https://127.0.0.1./", "https://127.0.0.1:8443/", "https://127.255.255.254/",
    "https://0.0.0.0/",
    "https://2130706433/", "https://017700000001/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://127.1/", "https://127.0.1/", "https://0/", "https://00000000/", "https://1.2.3.4.5/", "https://1.0x7f/",
    "https://127\u30020\u30020\u30021/", "https://\uff11\uff12\uff17.0.0.1/",
    "https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",
    "https://\u0661\u0662\u0667.0.0.1/", "https://localhost/", "https://localhost./", "https://LocalHost/",
    "https://a.localhost/",
    "https://\u24dbocalhost/", "https://\uff4cocalhost/", "https://[::1]/", "https://[0:0:0:0:0:0:0:1]/",
    "https://[::]/",
    "https://[::1%25lo]/", "https://[fe80::1%25eth0]/", "https://[fe80::1]/", "https://[2606:4700::1111%25eth0]/",
    "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b:1::7f00:1]/", "https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::]/",
    "https://[::ffff:0:7f00:1]/",
    "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[fec0::1]/", "https://[ff02::1]/", "https://[100::1]/",
    "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.0.1/", "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/", "https://100.100.100.200/", "https://198.18.0.1/", "https://224.0.0.1/",
    "https://240.0.0.1/", "https://255.255.255.255/", "https://[2002:a9fe:a9fe::]/",
    "https://[::ffff:169.254.169.254]/",
)  # fmt: skip
"""Of this machine or its network, however they are written. None names a host that would have to be looked up."""

TRICKS = (
    "http://example.com/", "file:///etc/passwd", "ftp://example.com/", "gopher://127.0.0.1/", "data:text/plain,hi",
    "javascript:alert(1)", "//example.com/", "example.com", "", "https://", "https:///127.0.0.1/", "https:127.0.0.1",
    "https://user@example.com/", "https://user:word@example.com/", "https://example.com@127.0.0.1/",
    "https://example.com\\@127.0.0.1/", "https://127.0.0.1\\@example.com/", "https:\\\\127.0.0.1/",
    "https://exa\tmple.com/", "https://example.com\n/", "https://example.com/\r\nHost: 127.0.0.1",
    "https://exam\u200bple.com/",
    "https://example.com\u202e/", "https://example.com%2f@127.0.0.1/", "https://127.0.0.1%2f.example.com/",
    "https://example.com%00.evil.example/", "https://example.com:99999/", "https://example.com:0x50/", "https://[::1/",
    "https://a..example.com/", "https://.example.com/", "https://example.com../", "https://-/", "https://exa mple.com/",
    "https://example.com:443:80/", "https://[example.com]/", "https://" + "a" * 64 + ".example.com/",
    "https://" + ".".join(["abcdefgh"] * 40) + "/", "https://example.com/" + "a" * 3000,
)  # fmt: skip
"""Not public https addresses, or such as two programs read in two ways."""

ALLOWED = (
    "https://example.com/", "https://EXAMPLE.com./a?b=c#d", "https://sub_domain.example.com:8443/", "https://1.1.1.1/",
    "https://[2606:4700::1111]/", "https://b\u00fccher.example/", "https://xn--bcher-kva.example/",
    "https://3com.example/",
    "https://example.com/a%20b/%C3%A4?q=%2F", "https://example.com/\u00e4?q=a b",
)  # fmt: skip
"""What must go on working."""
