"""Clusters on which `app` has the rights that a test gives it, and `admin` all."""

from collections.abc import Iterator

import pytest

import semel
from semel.engine.apache import ApacheCluster
from semel.errors import EnvironmentFailure
from tests.acls.cases import Place
from tests.acls.rights import PASSWORDS, SETTINGS
from tests.acls.running import prepare
from tests.acls.user_talk import sign_in, versions_of
from tests.differential.conftest import APACHE_SETTINGS
from tests.differential.conftest import SETTINGS as COMMON_SETTINGS
from tests.differential.talk import Side
from tests.support.waiting import eventually

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def _side(name: str, bootstrap: str) -> Side:
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    return Side(name, host, int(port))


class ApacheWithUsers(ApacheCluster):
    """One node of Apache Kafka whose clients authenticate; the controller's own listener stays open to the node."""

    def __init__(self) -> None:
        """The listener is called PLAINTEXT and speaks SASL, so that the rest of the settings stay as they are."""
        users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
        login = f'{JAAS} username="admin" password="{PASSWORDS["admin"]}" {users};'
        super().__init__(
            config={
                **APACHE_SETTINGS,
                **SETTINGS,
                "super.users": "User:admin;User:ANONYMOUS",
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.name.plaintext.plain.sasl.jaas.config": login,
            }
        )

    @property
    def client_settings(self) -> dict[str, str]:
        """As the administrator."""
        login = {"sasl.username": "admin", "sasl.password": PASSWORDS["admin"], "sasl.mechanism": "PLAIN"}
        return {"bootstrap.servers": self.bootstrap, "security.protocol": "SASL_PLAINTEXT", **login}

    def wait_until_ready(self, seconds_max: float = 90.0) -> None:
        """Return when the administrator can sign in."""

        def is_up() -> bool:
            try:
                sign_in(_side("apache", self.bootstrap), "admin").close()
            except (OSError, AssertionError):
                return False
            return True

        eventually(is_up, seconds_max, what="Apache Kafka with users")


def _start() -> semel.Cluster:
    security = semel.Security(users=PASSWORDS)
    return semel.Cluster(brokers=1, config={**COMMON_SETTINGS, **SETTINGS}, security=security)


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[semel.Cluster]:
    """One broker."""
    with _start() as started:
        yield started


@pytest.fixture(scope="session")
def compared_cluster() -> Iterator[semel.Cluster]:
    """One broker that is compared with Apache Kafka: whatever it lists was made on both."""
    with _start() as started:
        yield started


@pytest.fixture(scope="session")
def embedded(embedded_cluster: semel.Cluster) -> Iterator[Place]:
    """What the cases are about, on the embedded cluster."""
    side = _side("embedded", embedded_cluster.bootstrap)
    place = prepare(side, versions_of(side), "script-alone-")
    yield place
    place.talk.close()


@pytest.fixture(scope="session")
def apache() -> Iterator[ApacheWithUsers]:
    """Apache Kafka with the same users and settings."""
    cluster = ApacheWithUsers()
    try:
        cluster.start()
    except EnvironmentFailure as failure:
        pytest.skip(f"Apache Kafka cannot be started here: {failure}")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def both(compared_cluster: semel.Cluster, apache: ApacheWithUsers) -> Iterator[tuple[Place, Place]]:
    """The same things on both, spoken of in the versions that both serve."""
    sides = (_side("embedded", compared_cluster.bootstrap), _side("apache", apache.bootstrap))
    ours, theirs = map(versions_of, sides)
    common = {
        key: (max(ours[key][0], theirs[key][0]), min(ours[key][1], theirs[key][1])) for key in ours.keys() & theirs
    }
    first, second = (prepare(side, common, "script-both-") for side in sides)
    yield first, second
    first.talk.close()
    second.talk.close()
