"""`groupkeeper certs DIR`: an authority, a server's and a client's certificate, and how to use
them; the same for `groupkeeper serve --dev --tls`.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.settings.table import HOST_NAME, Settings

if TYPE_CHECKING:
    from groupkeeper.access.own_certificates import CertificateFiles

FOLDER: Final = "tls"
"""Folder of a data directory with the certificates of `serve --dev --tls`."""
CLIENT: Final = "client"
LONGEST_NAME: Final = 64
"""Characters of a common name: RFC 5280's limit."""


def _hosts(_: object, __: object, given: tuple[str, ...]) -> tuple[str, ...]:
    for each in given:
        if not HOST_NAME.fullmatch(each) or len(each) > LONGEST_NAME:
            raise click.BadParameter(f"{each!r} is not a host name or an IP address")
    return tuple(each.strip("[]") for each in given)


def _client(_: object, __: object, given: str) -> str:
    if not 0 < len(given) <= LONGEST_NAME:
        raise click.BadParameter(f"give 1 to {LONGEST_NAME} characters")
    return given


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    callback=_hosts,
    metavar="NAME",
    help="A name or an address that clients use for the server, besides localhost. Repeatable.",
)
@click.option(
    "--client",
    default=CLIENT,
    show_default=True,
    callback=_client,
    metavar="NAME",
    help="Common name of the client's certificate: the principal is User:CN=NAME.",
)
def certs(folder: Path, hosts: tuple[str, ...], client: str) -> int:
    """Make certificates for TLS: an authority, a server and a client.

    Needs the package cryptography. Existing files are not overwritten. Files with keys are readable
    by their owner only; keep ca-key.pem away from the server. Prints the settings of the server,
    and the properties of clients.

    \b
      groupkeeper certs certificates --host kafka.example
      groupkeeper certs certificates --host kafka.example --client billing
    """
    files = _made(folder, hosts, client)
    click.echo(_how_to(files, hosts[0] if hosts else "localhost"))
    return 0


def _made(folder: Path, hosts: tuple[str, ...], client: str) -> "CertificateFiles":
    try:
        from groupkeeper.access.own_certificates import make_certificates
    except ModuleNotFoundError:
        raise CommandRefused(
            "certificates are made with the package cryptography: pip install cryptography"
        ) from None
    try:
        return make_certificates(folder, hosts, client)
    except OSError as error:
        raise CommandRefused(str(error)) from None


def _how_to(files: "CertificateFiles", host: str) -> str:
    server, client, authority = (
        path.absolute() for path in (files.server, files.client, files.authority)
    )
    return f"""\
# made: {", ".join(each.name for each in files)} in {files.server.parent.absolute()}

# settings of the server (--config); without ssl.client.auth clients need no certificate
listeners=SSL://0.0.0.0:9093
advertised.listeners=SSL://{host}:9093
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.client.auth=required

# properties of a client (--command-config, Java); without the key store if none is required
bootstrap.servers={host}:9093
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.keystore.type=PEM
ssl.keystore.location={client}

# of Java's clients of Kafka 2.8, which want the key encrypted: ssl.keystore.type=PKCS12, with
#   ssl.keystore.password, and the file of: openssl pkcs12 -export -in {client} -out client.p12

# of librdkafka: ssl.ca.location={authority}
#   ssl.certificate.location={client}, ssl.key.location={client}"""


def with_own_certificates(settings: Settings, data_dir: Path) -> Settings:
    """Return the settings with the certificates in the data directory, made unless they are there.
    Prints to stderr what clients need. Raises CommandRefused.
    """
    own = {"ssl.keystore.location", "ssl.keystore.key"} & settings.given
    if own:
        raise CommandRefused(f"--tls makes a key of its own: leave out {min(own)}, or --tls")
    folder = data_dir / FOLDER
    if (folder / "server.pem").exists():
        from groupkeeper.access.own_certificates import files_in

        files = files_in(folder)
    else:
        files = _made(folder, (), CLIENT)
    click.echo(
        "groupkeeper: properties of clients: security.protocol=SSL ssl.truststore.type=PEM "
        f"ssl.truststore.location={files.authority.absolute()}",
        err=True,
    )
    return replace(
        settings,
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(files.server),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(files.authority),
    )
