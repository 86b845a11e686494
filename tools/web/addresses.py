"""Which IP addresses are the public internet. ``is_global`` alone is not enough: it holds for 64:ff9b::7f00:1 (NAT64 of
127.0.0.1), 2002:7f00:1:: (6to4), 224.0.0.1 and 192.88.99.1."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_DENIED = tuple(
    ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001:db8::/32", "2001:10::/28", "2001:20::/28", "2001:2::/48", "3fff::/20"),
    )
)


def is_public(text: str) -> bool:
    """Whether a connection to this literal address stays on the public internet, whatever it wraps."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return all(_plain_public(inner) for inner in _unwrapped(address))


def _unwrapped(address: Address) -> tuple[Address, ...]:
    """The IPv4 addresses that a transition address stands for (both of Teredo's), else the address itself."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo if address.teredo is not None else (address,)


def _plain_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and (address not in _GLOBAL_UNICAST or address.scope_id):
        return False
    if any(address.version == block.version and address in block for block in _DENIED):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
