"""What docker/ promises, as far as it can be seen without a container engine."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
SECURE = (DOCKER / "compose-secure.yaml").read_text(encoding="utf-8")
OBSERVE = (DOCKER / "compose-observe.yaml").read_text(encoding="utf-8")


def locked() -> dict[str, str]:
    """Versions of the server's packages."""
    lock = (ROOT / "requirements" / "server.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))


def test_every_package_in_the_image_is_named_with_its_licence() -> None:
    page = (DOCKER / "THIRD-PARTY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \| (https://\S+) \|$", page, re.MULTILINE)
    assert {name: version for name, version, _, _ in rows} == locked()
    assert ("crc32c", "LGPL-2.1-or-later") in {(name, licence) for name, _, licence, _ in rows}
    assert "docker/THIRD-PARTY.md" in DOCKERFILE


def test_the_image_can_check_every_login() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in ("sasl", "tls", "oauth"):
        for each in extras["optional-dependencies"][extra]:
            assert re.split("[<>=]", each)[0] in locked()


def test_images_are_pinned_to_a_version() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    images = re.findall(r"^ +image: (\S+)", COMPOSE, re.MULTILINE)
    assert len(bases) == len(images) == 2
    assert len(set(bases)) == 1
    assert all(re.search(r":v?\d+\.\d+\.\d+", each) for each in bases + images)


def test_nothing_is_installed_without_a_hash_but_our_own_wheel() -> None:
    installs = re.findall(r"pip install ([^&\n]+)", DOCKERFILE)
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_what_is_copied_is_there_and_let_into_the_build() -> None:
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    let_in = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = [source for copy in copies for source in copy.split()]
    assert len(sources) > 8
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in let_in), source


def test_the_image_runs_as_nobody_special_and_keeps_its_data_in_a_volume() -> None:
    """By number: Kubernetes cannot tell from a name that it is not root's."""
    lines = DOCKERFILE.splitlines()
    assert lines.index("USER 10001") < lines.index("VOLUME /var/lib/groupkeeper")
    assert "--uid 10001" in DOCKERFILE


def test_every_service_is_hardened_and_published_on_the_loopback() -> None:
    services = COMPOSE.partition("\nservices:\n")[2].partition("\nvolumes:\n")[0]
    names = re.findall(r"^  ([a-z]+):\n    <<: \*hardened\n", services, re.MULTILINE)
    assert names == re.findall(r"^  ([a-z]+):$", services, re.MULTILINE)
    for promise in ("read_only: true", "- ALL", "- no-new-privileges:true", "- /tmp"):
        assert COMPOSE.count(promise) == 1
    ports = re.findall(r'^ +- "(\S+:\d+)"$', services, re.MULTILINE)
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_guarded_service_is_hardened_and_publishes_nothing_without_a_login() -> None:
    for promise in ("read_only: true", "- ALL", "- no-new-privileges:true", "- /tmp"):
        assert SECURE.count(promise) == 1
    settings = (DOCKER / "secure.properties").read_text(encoding="utf-8")
    [port] = re.findall(r'^ +- "\d+:(\d+)"$', SECURE, re.MULTILINE)
    [listener] = re.findall(r"^listeners=(\S+)$", settings, re.MULTILINE)
    assert listener == f"OUTSIDE://0.0.0.0:{port}"
    assert "\nlistener.security.protocol.map=OUTSIDE:SASL_SSL\n" in settings
    assert "--http=127.0.0.1:9644" in SECURE


def test_what_the_guarded_service_mounts_is_there_or_made_before() -> None:
    mounted = re.findall(r"^ +- \./(\S+):(/\S+):ro$", SECURE, re.MULTILINE)
    assert dict(mounted) == {
        "secure.properties": "/etc/groupkeeper/server.properties",
        "certificates/server.pem": "/etc/groupkeeper/server.pem",
    }
    assert "groupkeeper certs docker/certificates " in SECURE
    assert "chown 10001 docker/certificates/server.pem" in SECURE
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "/docker/certificates/" in ignored


def test_the_observer_is_hardened_beside_a_broker_on_the_loopback() -> None:
    services = dict(re.findall(r"^  ([a-z]+):\n((?:    .+\n|\n)+)", OBSERVE, re.MULTILINE))
    assert [*services] == ["kafka", "observer"]
    for promise in ("read_only: true", "- ALL", "- no-new-privileges:true", "- /tmp"):
        assert promise in services["observer"]
    for service in services.values():
        [port] = re.findall(r'^ +- "(\S+:\d+)"$', service, re.MULTILINE)
        assert port.startswith("127.0.0.1:")
        [volume] = re.findall(r"^ +- ([a-z]+):/var/lib/", service, re.MULTILINE)
        assert f"  {volume}:\n" in OBSERVE.partition("\nvolumes:\n")[2]
    assert re.search(r"image: apache/kafka:\d+\.\d+\.\d+$", services["kafka"], re.MULTILINE)
