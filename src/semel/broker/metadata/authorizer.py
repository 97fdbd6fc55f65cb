"""Who may do what on one broker: its settings for authorization, and the entries in the cluster's state.

Off unless `authorizer.class.name` names Apache Kafka's StandardAuthorizer; then everything that `access` asks for has
to be allowed by an entry, except for the principals in `super.users`, who may do everything. Brokers trust each other.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from semel.broker.metadata.acls import Acl, AclIndex, Asker, Operation, Resource
from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.broker.metadata.config import BrokerSettings

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLASS_KEY = "authorizer.class.name"
SUPER_USERS_KEY = "super.users"
EVERYONE_KEY = "allow.everyone.if.no.acl.found"


class Authorizer:
    """Decides by the entries that this broker knows; a broker that is cut off decides by old ones."""

    def __init__(self, super_users: frozenset[str], *, everyone_if_no_acl: bool) -> None:
        """No entries are known yet."""
        self._super_users = super_users
        self._everyone_if_no_acl = everyone_if_no_acl
        self._acls: Mapping[Acl, None] = {}
        self._index = AclIndex(())

    @classmethod
    def of(cls, settings: BrokerSettings) -> Authorizer | None:
        """Read the settings; None when authorization is off. Refuses what would be ignored."""
        name = settings.text(CLASS_KEY)
        if not name:
            unused = [key for key in (SUPER_USERS_KEY, EVERYONE_KEY) if key in settings.given]
            if unused:
                raise ConfigError(
                    f"{unused[0]} has no effect while nothing is authorized",
                    you_want=f"{CLASS_KEY}={STANDARD_AUTHORIZER} as well",
                )
            return None
        if name != STANDARD_AUTHORIZER:
            raise ConfigError(f"{CLASS_KEY}={name} cannot be loaded here", you_want=STANDARD_AUTHORIZER)
        return cls(_super_users(settings.text(SUPER_USERS_KEY)), everyone_if_no_acl=settings.enabled(EVERYONE_KEY))

    @property
    def lets_nobody_in(self) -> bool:
        """Whether only entries that are there already allow anything: nobody can make the first one."""
        return not self._super_users and not self._everyone_if_no_acl

    def allows(
        self, acls: Mapping[Acl, None], asker: Asker, operation: Operation, resource: Resource, name: str
    ) -> bool:
        """Decide about one operation on one resource."""
        if asker.principal in self._super_users:
            return True
        return self._indexed(acls).allows(asker, operation, resource, name, otherwise=self._everyone_if_no_acl)

    def allows_some(self, acls: Mapping[Acl, None], asker: Asker, operation: Operation, resource: Resource) -> bool:
        """Decide about one operation on any resource of a kind."""
        # Apache Kafka asks for a name that nobody uses, which super users and "everyone" pass.
        if self.allows(acls, asker, operation, resource, "hardcode"):
            return True
        return self._indexed(acls).allows_some(asker, operation, resource)

    def _indexed(self, acls: Mapping[Acl, None]) -> AclIndex:
        # Every change of the entries makes a new mapping, so identity tells whether the index is up to date.
        if acls is not self._acls:
            self._acls, self._index = acls, AclIndex(acls)
        return self._index


def _super_users(text: str) -> frozenset[str]:
    """Read `User:alice;User:bob`."""
    names = frozenset(part.strip() for part in text.split(";") if part.strip())
    for name in names:
        check_principal(name)
    return names


def check_principal(text: str) -> None:
    """Refuse a text that is no principal."""
    kind, separator, _ = text.partition(":")
    if not kind or not separator:
        raise ConfigError(f"{text!r} is no principal", you_want="type and name, such as User:alice")


@lru_cache(maxsize=1024)
def host_of(peer: str) -> str:
    """The address of a connection as entries write it: Java's text form, which spells every group of IPv6 out."""
    # A link-local address has its interface behind "%", which no entry names.
    text = peer.rpartition(":")[0].partition("%")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return text
    # A socket that takes both families shows IPv4 clients in this form, while entries name them as IPv4.
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
