"""What packaging/ promises to systemd and Kubernetes, as far as it can be seen without them."""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from groupkeeper.cli import USAGE_ERROR, main
from groupkeeper.cli.cluster import Cluster
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.metrics import Metrics, PartitionSnapshot
from groupkeeper.observe.pages import pages
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import TABLE
from groupkeeper.watch.options import ObserveOptions

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "packaging" / "groupkeeper.service"
MANIFEST = (ROOT / "packaging" / "kubernetes.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    """What `serve` would be started with."""
    found: list[ServeOptions] = []
    module = ModuleType("groupkeeper.server.main")
    module.run = found.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return found


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> list[ObserveOptions]:
    """What `observe` would be started with."""
    found: list[ObserveOptions] = []

    async def observe(_client: object, options: ObserveOptions, *_: object) -> int:
        found.append(options)
        return 0

    module = ModuleType("groupkeeper.watch.main")
    module.observe = observe  # type: ignore[attr-defined]
    module.ObserverProcess = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Cluster, "run", lambda _, work, __: asyncio.run(work(None)))
    return found


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_the_units_command_is_one_that_serve_takes(served: list[ServeOptions]) -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "groupkeeper"
    main(arguments)
    [options] = served
    assert options.listeners == ServeOptions(Path()).listeners
    assert options.http == ServeOptions(Path()).http
    assert options.data_dir == Path("/var/lib") / service["StateDirectory"]


def test_wrong_settings_are_not_tried_again() -> None:
    assert unit()["Service"]["RestartPreventExitStatus"] == str(USAGE_ERROR)


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """Where systemd is installed; the program may be missing here."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(
        re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.M)
    )
    ran = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_manifests_command_is_one_that_serve_takes(served: list[ServeOptions]) -> None:
    arguments = re.findall(r"^            - (serve|--\S+)$", MANIFEST, re.MULTILINE)
    main(arguments)
    [options] = served
    [listener] = options.listeners
    assert listener.bind == ("0.0.0.0", 9092)
    assert listener.advertised == ("groupkeeper.$(NAMESPACE).svc", 9092)
    assert options.http == ("0.0.0.0", 9644)
    assert f"mountPath: {options.data_dir}}}" in MANIFEST


def test_neighbours_of_the_container_and_its_host_have_addresses_of_their_own(
    served: list[ServeOptions],
) -> None:
    compose = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")
    main(re.findall(r"^      - (serve|--\S+)$", compose, re.MULTILINE))
    [options] = served
    assert [each.advertised for each in options.listeners] == [
        ("localhost", 9092),
        ("server", 19092),
    ]
    assert {each.bind[0] for each in options.listeners} == {"0.0.0.0"}


def test_the_observer_comes_to_an_address_that_its_broker_advertises(
    observed: list[ObserveOptions],
) -> None:
    compose = (ROOT / "docker" / "compose-observe.yaml").read_text(encoding="utf-8")
    assert main(re.findall(r"^      - (observe|--\S+)$", compose, re.MULTILINE)) == 0
    [options] = observed
    [advertised] = re.findall(r"ADVERTISED_LISTENERS: (\S+)", compose)
    assert f"NEIGHBOUR://{options.bootstrap}" in advertised.split(",")
    assert options.http == ("0.0.0.0", 9644)
    assert f":{options.data_dir}\n" in compose


def test_ports_and_probes_agree_with_the_server() -> None:
    usual = ServeOptions(Path())
    assert usual.http is not None
    ports = {"kafka": usual.listeners[0].bind[1], "http": usual.http[1]}
    for kind in ("port", "containerPort"):
        found = re.findall(rf"{{name: (\w+), {kind}: (\d+)", MANIFEST)
        assert {name: int(port) for name, port in found} == ports
    probes = dict(re.findall(r"(\w+)Probe:\n +httpGet: {path: (\S+), port: http}", MANIFEST))
    assert probes == {"liveness": "/healthz", "readiness": "/readyz?enough=0.9"}


def test_one_damaged_partition_takes_the_server_from_nobody() -> None:
    """There is no other pod that could serve the others."""
    path, _, query = re.findall(r"path: (/readyz)(\?)(\S+),", MANIFEST)[0]
    damaged = PartitionSnapshot(7, "closed", reason="damaged")
    page = pages(Metrics(lambda: [*[PartitionSnapshot(0, "active")] * 49, damaged]))[path]
    asked = [asyncio.run(page(HttpRequest("GET", path, each))) for each in ("", query)]
    assert [answer.status for answer in asked] == [503, 200]
    assert "publishNotReadyAddresses: true" in MANIFEST


def test_prometheus_may_come_from_another_namespace() -> None:
    policy = MANIFEST[MANIFEST.index("kind: NetworkPolicy") :]
    assert re.search(r"namespaceSelector:.*\n +ports:\n +- {port: http}", policy)
    for key, value in (("scrape", "true"), ("port", "9644"), ("path", "/metrics")):
        assert f'prometheus.io/{key}: "{value}"' in MANIFEST


def test_both_say_how_to_refuse_an_empty_volume() -> None:
    """Not from the first start on, which finds an empty one."""
    assert TABLE["data.dir.must.exist"]
    for text in (MANIFEST, UNIT.read_text(encoding="utf-8")):
        assert re.search(r"^ *#.*GROUPKEEPER_DATA_DIR_MUST_EXIST", text, re.MULTILINE)


def test_the_manifest_holds_the_server_to_what_the_image_promises() -> None:
    user = re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert user is not None
    for line in (
        f"runAsUser: {user[1]}",
        f"fsGroup: {user[1]}",
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "capabilities: {drop: [ALL]}",
        "replicas: 1",
    ):
        assert line in MANIFEST
