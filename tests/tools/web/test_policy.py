"""No packet leaves for an address that is not public, whatever the URL, the resolver or the redirect says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.web.loopback import FakeResolver, connections
from tools.base import ToolError
from tools.web.addresses import is_public
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.127.255.255", "192.88.99.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::",
    "2002:a00:1::1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1", "100::1", "not an address", "",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700::1111",
    "64:ff9b::808:808",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert is_public(address)


NAMES = {
    "private.test": ["10.1.2.3"],
    "mixed.test": ["93.184.216.34", "127.0.0.1"],
    "mixed6.test": ["2606:4700::1111", "64:ff9b::7f00:1"],
    "meta.test": ["169.254.169.254"],
    "loop.test": ["::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "nowhere.test": [],
    "127.1": ["127.0.0.1"],
    "0x7f000001": ["127.0.0.1"],
    "2130706433": ["127.0.0.1"],
    "0": ["0.0.0.0"],
    "localhost": ["127.0.0.1", "::1"],
    "localtest.me": ["127.0.0.1"],
    "xn--bcher-kva.test": ["192.168.0.5"],
}
REFUSED = [
    *(f"http://{name}/" for name in NAMES), "http://private.test./", "https://private.test/", "http://bücher.test/",
    "http://PRIVATE.test:8080/a?b#c", "http://127.0.0.1/", "http://127.0.0.1:8443/", "http://[::1]/", "http://[::]/",
    "http://[::ffff:7f00:1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[fe80::1%25lo]/",
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1:22/", "http://private.test:22/", "http://private.test:0/",
    "http://private.test:6379/", "http://private.test:99999/", "http://private.test:-1/", "http://private.test:8 0/",
    "http://user@private.test/", "http://user:pw@private.test/", "http://@private.test/", "http://1.1.1.1@127.0.0.1/",
    "http://127.0.0.1#@1.1.1.1/", "http://1.1.1.1\\@127.0.0.1/", "http:\\\\private.test/", "http:/private.test/",
    "http:///private.test/", "http:private.test", "//private.test/", "private.test", "http://", "http://?x", "http://.",
    "file:///etc/passwd", "ftp://private.test/", "gopher://private.test/", "data:text/html,x", "javascript:alert(1)",
    "http://①②⑦.⓪.⓪.①/", "http://private.test/\r\nHost: evil", "http://private.test/a b", "http://\x00private.test/",
    "http://private.test/" + "a" * 5000, "", "   ", "http://[::1", "http://exa mple.test/", "http://%31%32%37.0.0.1/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
async def test_refused_before_any_packet(url: str) -> None:
    fetcher = Fetcher(resolver=FakeResolver(NAMES))
    with connections() as seen, pytest.raises(ToolError) as failure:
        await fetcher.fetch(url)
    await fetcher.aclose()
    assert seen == []
    assert failure.value.kind in ("forbidden", "invalid_arguments", "network")
    assert len(str(failure.value)) > 10


@given(
    st.lists(st.one_of(st.ip_addresses().map(str), st.sampled_from(PUBLIC)), max_size=3),
    st.sampled_from([address for address in PRIVATE if address]),
)
async def test_one_bad_answer_is_enough(answers: list[str], bad: str) -> None:
    fetcher = Fetcher(resolver=FakeResolver({"site.test": [*answers, bad]}))
    with connections() as seen, pytest.raises(ToolError, match="not on the public internet"):
        await fetcher.fetch("http://site.test/")
    assert seen == []


async def test_an_allowed_host_is_exact() -> None:
    resolver = FakeResolver({"mirror.test": ["127.0.0.1"], "a.mirror.test": ["127.0.0.1"]})
    fetcher = Fetcher(FetchConfig(allow_hosts=("mirror.test:9",)), resolver=resolver)
    with connections() as seen:
        for url in (
            "http://mirror.test/",
            "http://a.mirror.test:9/",
            "http://127.0.0.1:9/",
            "http://mirror.test:8080/",
        ):
            with pytest.raises(ToolError) as failure:
                await fetcher.fetch(url)
            assert failure.value.kind == "forbidden"
        assert seen == []
        with pytest.raises(ToolError, match="cannot connect"):
            await fetcher.fetch("http://mirror.test:9/")
    await fetcher.aclose()
    assert seen == [("127.0.0.1", 9)]


def test_an_allowed_host_needs_a_port() -> None:
    with pytest.raises(ValueError, match="host:port"):
        Fetcher(FetchConfig(allow_hosts=("mirror.test",)))


FORMS = [
    "http://{}/", "https://{}/", "http://{}:8080/a", "https://{}:8443/", "http://{}./", "http://{}:80/?q=http://1.1.1.1/",
    "HTTP://{}/#x", "http://{}/%2e%2e/", "http://sub.{}/", "http://{}//",
]  # fmt: skip
ANSWERS = [[bad] for bad in PRIVATE if bad] + [
    ["93.184.216.34", "10.0.0.1"], ["10.0.0.1", "93.184.216.34"], ["2606:4700::1111", "::1"],
    ["8.8.8.8", "1.1.1.1", "169.254.169.254"], ["93.184.216.34", ""], ["8.8.8.8", "fe80::1%eth0"],
]  # fmt: skip


def literals() -> list[str]:
    """Every denied address as the host of a URL itself, and in the notations that resolvers understand."""
    plain = [f"http://[{bad}]/" if ":" in bad else f"http://{bad}/" for bad in PRIVATE if bad and " " not in bad]
    odd = [
        "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/",
        "http://127.0.1/", "http://0/", "http://017700000001/", "http://0xa9fea9fe/", "http://2852039166/",
        "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://127.0.0.1./", "http://[::127.0.0.1]/", "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:0:7f00:1]/", "http://[64:ff9b::10.0.0.1]/", "http://[2001:0000::1]/", "http://127.0.0.1%2f/",
    ]  # fmt: skip
    return plain + odd


LOOPS = ["2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.1", "0", "017700000001"]
ODD_TABLE = {
    **{host: ["127.0.0.1"] for host in LOOPS},
    **{host: ["169.254.169.254"] for host in ("0xa9fea9fe", "2852039166")},
}


def test_the_table_is_large_enough() -> None:
    urls = {form.format("site.test") for form in FORMS} | set(literals()) | set(REFUSED)
    assert len(urls) >= 120
    assert len(FORMS) * len(ANSWERS) >= 400


async def test_every_form_of_url_times_every_denied_answer() -> None:
    with connections() as seen:
        for answers in ANSWERS:
            resolver = FakeResolver({"site.test": answers, "sub.site.test": answers})
            fetcher = Fetcher(resolver=resolver)
            for form in FORMS:
                with pytest.raises(ToolError) as failure:
                    await fetcher.fetch(form.format("site.test"))
                assert failure.value.kind == "forbidden", (form, answers)
            assert len(resolver.asked) == len(FORMS)  # once each
            await fetcher.aclose()
    assert seen == []


@pytest.mark.parametrize("url", literals())
async def test_denied_addresses_as_hosts(url: str) -> None:
    fetcher = Fetcher(resolver=FakeResolver(ODD_TABLE))
    with connections() as seen, pytest.raises(ToolError) as failure:
        await fetcher.fetch(url)
    await fetcher.aclose()
    assert seen == []
    assert failure.value.kind in ("forbidden", "invalid_arguments", "network")


@pytest.mark.parametrize("entry", ["127.0.0.1:8080", "site.test:80"])
async def test_loopback_by_exact_entry_only(entry: str) -> None:
    """What is next to an allowed entry stays denied: another port, another name of the same host, a subdomain."""
    fetcher = Fetcher(FetchConfig(allow_hosts=(entry,)), resolver=FakeResolver({
        "site.test": ["127.0.0.1"], "www.site.test": ["127.0.0.1"], "localhost": ["127.0.0.1"],
    }))  # fmt: skip
    near = [
        "http://127.0.0.1/", "http://127.0.0.1:8443/", "http://localhost:8080/", "http://127.0.0.2:8080/",
        "http://[::1]:8080/", "http://[::ffff:127.0.0.1]:8080/", "http://www.site.test/", "https://site.test/",
        "http://site.test:8080/",
    ]  # fmt: skip
    with connections() as seen:
        for url in near:
            with pytest.raises(ToolError):
                await fetcher.fetch(url)
    await fetcher.aclose()
    assert seen == []


@pytest.mark.parametrize("entry", ["127.0.0.1", "*:80", "127.0.0.1:http", ":80"])
def test_no_wildcards(entry: str) -> None:
    if entry == "*:80":  # a host of that name, and nothing more
        assert Fetcher(FetchConfig(allow_hosts=(entry,)))
        return
    with pytest.raises(ValueError, match="host:port"):
        Fetcher(FetchConfig(allow_hosts=(entry,)))
