"""What `groupkeeper serve` makes of its arguments. The server itself is replaced."""

import subprocess
import sys
from pathlib import Path
from socket import getfqdn
from types import ModuleType

import pytest

from groupkeeper.cli import main
from groupkeeper.settings.options import Listen, ServeOptions

Capture = pytest.CaptureFixture[str]


class Server:
    """Stands in for groupkeeper.server.main and keeps what it was told."""

    def __init__(self) -> None:
        self.options: ServeOptions | None = None
        self.data_dir_existed = False

    def run(self, options: ServeOptions) -> int:
        self.options = options
        self.data_dir_existed = options.data_dir.is_dir()
        return 7


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server, module = Server(), ModuleType("groupkeeper.server.main")
    module.run = server.run  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return server


def options(server: Server, *arguments: str) -> ServeOptions:
    assert main(["serve", *arguments]) == 7
    assert server.options is not None
    return server.options


def test_no_argument_is_enough(server: Server) -> None:
    assert options(server) == ServeOptions(
        data_dir=Path("groupkeeper-data"),
        listeners=(Listen("PLAINTEXT", ("127.0.0.1", 9092), None),),
        http=("127.0.0.1", 9644),
        node_id=0,
        dev=False,
    )


def test_addresses(server: Server) -> None:
    found = options(
        server, "--listen", "0.0.0.0:0", "--advertise", "kafka.example:9093", "--http", "[::1]:0"
    )
    assert found.listeners == (Listen("PLAINTEXT", ("0.0.0.0", 0), ("kafka.example", 9093)),)
    assert found.http == ("::1", 0)


def test_listeners_of_the_settings(server: Server) -> None:
    bound = "listeners=inside://0.0.0.0:9092, OUTSIDE://127.0.0.1:0,CONTROLLER://:9093"
    told = "advertised.listeners=INSIDE://server:9092,CONTROLLER://localhost:9093"
    found = options(server, "--set", bound, "--set", told)
    assert found.listeners == (
        Listen("INSIDE", ("0.0.0.0", 9092), ("server", 9092)),
        Listen("OUTSIDE", ("127.0.0.1", 0), None),
    )
    assert found.unused_keys == ()


def test_an_advertised_listener_of_the_usual_address(server: Server) -> None:
    found = options(server, "--set", "advertised.listeners=PLAINTEXT://kafka.example:9093")
    [listener] = found.listeners
    assert listener == Listen("PLAINTEXT", ("127.0.0.1", 9092), ("kafka.example", 9093))


def test_without_a_host_clients_are_told_this_machines_name(server: Server) -> None:
    found = options(server, "--set", "listeners=PLAINTEXT://:9092")
    assert found.listeners == (Listen("PLAINTEXT", ("0.0.0.0", 9092), (getfqdn(), 9092)),)


def test_listen_on_the_command_line_replaces_the_listeners_of_the_settings(server: Server) -> None:
    given = ("--set", "listeners=A://h:1,B://h:2", "--set", "advertised.listeners=A://h:1")
    found = options(server, "--listen", "127.0.0.1:0", *given)
    assert found.listeners == (Listen("PLAINTEXT", ("127.0.0.1", 0), None),)
    assert found.unused_keys == ("listeners", "advertised.listeners")


@pytest.mark.parametrize(
    ("listeners", "advertised", "problem"),
    [
        ("9092", None, "listeners: '9092' is not NAME://HOST:PORT"),
        ("A://h", None, "listeners: 'h' is not HOST:PORT"),
        ("A://h:1,a://h:2", None, "listeners: A is given twice"),
        ("A://h:1,B://h:1", None, "listeners: each listener needs its own port"),
        ("", None, "listeners: give 1 to 16 listeners"),
        (",".join(f"L{n}://h:{n}" for n in range(1, 18)), None, "listeners: give 1 to 16"),
        ("A://:0", None, "listeners: A://:0: give a port"),
        ("A://0.0.0.0:1", None, "every address of this machine: add A://HOST:PORT to advertised"),
        ("A://h:1", "B://h:1", "advertised.listeners: no listener B; listeners has A"),
        ("A://h:1", "A://:1", "advertised.listeners: clients cannot connect to :1"),
        ("A://h:1", "A://h:0", "advertised.listeners: clients cannot connect to h:0"),
    ],
)
def test_wrong_listeners_are_one_line_that_names_the_key(
    listeners: str, advertised: str | None, problem: str, server: Server, capsys: Capture
) -> None:
    told = () if advertised is None else ("--set", f"advertised.listeners={advertised}")
    assert main(["serve", "--set", f"listeners={listeners}", *told]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1
    assert server.options is None


def test_the_http_port_can_be_off(server: Server) -> None:
    assert options(server, "--http", "off").http is None


def test_settings_and_unused_keys_are_handed_on(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.dirs=/tmp/kafka\nnum.partitions=3\n")
    found = options(server, "--config", str(config), "--set", "group.max.size=5")
    assert found.settings.num_partitions == 3
    assert found.settings.group_max_size == 5
    assert found.unused_keys == ("log.dirs",)


def test_the_environment_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPKEEPER_NUM_PARTITIONS", "4")
    assert options(server).settings.num_partitions == 4


def test_the_command_lines_node_id_beats_the_setting(server: Server) -> None:
    assert options(server, "--set", "node.id=3").node_id == 3
    assert options(server, "--set", "node.id=3", "--node-id", "0").node_id == 0


def test_dev_lives_in_a_temporary_directory_that_is_gone_afterwards(server: Server) -> None:
    found = options(server, "--dev")
    assert found.dev
    assert found.settings.group_initial_rebalance_delay_ms == 0
    assert server.data_dir_existed
    assert not found.data_dir.exists()


def test_dev_uses_a_directory_that_is_named(server: Server, tmp_path: Path) -> None:
    assert options(server, "--dev", "--data-dir", str(tmp_path)).data_dir == tmp_path
    assert tmp_path.exists()


def test_in_memory_there_is_no_directory(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for dev in ([], ["--dev"]):
        found = options(server, "--memory", *dev)
        assert (found.memory, str(found.data_dir), found.dev) == (True, "memory", bool(dev))
        assert not server.data_dir_existed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--memory", "--data-dir", "d"], "--memory and --data-dir are mutually exclusive"),
        (["--memory", "--set", "data.dir.must.exist=true"], "data.dir.must.exist requires some"),
        (["--listen", "9092"], "Invalid value for '--listen': '9092' is not HOST:PORT"),
        (["--listen", "off"], "'off' is not HOST:PORT"),
        (["--advertise", "host:0"], "clients cannot connect to port 0"),
        (["--listen", "0.0.0.0:9092"], "with --advertise HOST:PORT"),
        (["--listen", "[::]:9092"], "with --advertise HOST:PORT"),
        (
            ["--advertise", "h:1", "--set", "listeners=A://h:1"],
            "--advertise and listeners are mutually exclusive: give it in advertised",
        ),
        (["--node-id", "-1"], "Invalid value for '--node-id'"),
        (["--set", "group.max.sise=1"], "did you mean group.max.size?"),
        (["--config", "/nowhere"], "--config /nowhere: No such file"),
    ],
)
def test_a_wrong_argument_is_one_line_and_nothing_runs(
    arguments: list[str], problem: str, server: Server, capsys: Capture
) -> None:
    assert main(["serve", *arguments]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1
    assert server.options is None


def test_little_is_imported_before_the_server() -> None:
    """The start-up budget: what the port does not need comes later, or not at all."""
    code = (
        "import sys, types; fake = types.ModuleType('m'); fake.run = lambda options: 0;"
        "sys.modules['groupkeeper.server.main'] = fake;"
        "from groupkeeper.cli import main; main(['serve', '--dev']);"
        "print([m for m in ('rich', 'prometheus_client', 'h11', 'numpy',"
        " 'pyspark', 'groupkeeper.protocol', 'groupkeeper.cli.dump.command', 'importlib.metadata')"
        " if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
