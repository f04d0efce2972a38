"""Subjects as Java 17's `X500Principal.getName()` prints them, and ends of validity."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.access.certificate import expiry_of, subject_of

CN, O, OU, C = (  # noqa: E741  # the names of the attributes
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COUNTRY_NAME,
)
END = datetime(2046, 1, 1, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
RDN = list[tuple[x509.ObjectIdentifier, str]]


def certificate(*rdns: RDN, kind: Kind | None = None, end: datetime = END) -> bytes:
    name = x509.Name(
        x509.RelativeDistinguishedName([x509.NameAttribute(oid, text, kind) for oid, text in rdn])
        for rdn in rdns
    )
    issuer = x509.Name([x509.NameAttribute(CN, "authority")])
    made = x509.CertificateBuilder(issuer, name, KEY.public_key(), 5)
    made = made.not_valid_before(END - timedelta(days=9_000)).not_valid_after(end)
    return made.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("rdns", "printed"),
    [
        ([[(C, "US")], [(O, "Org, Inc.")], [(CN, "x")]], "CN=x,O=Org\\, Inc.,C=US"),
        ([[(CN, ' #a "q" <x>;+=\\ ')]], 'CN=\\ \\#a \\"q\\" \\<x\\>\\;\\+\\=\\\\\\ '),
        (
            [[(CN, "x")], [(NameOID.EMAIL_ADDRESS, "a@b.c")]],
            "1.2.840.113549.1.9.1=#16056140622e63,CN=x",
        ),
        ([[(NameOID.SERIAL_NUMBER, "123")], [(CN, "x")]], "CN=x,2.5.4.5=#1303313233"),
        ([[(NameOID.DOMAIN_COMPONENT, "com")], [(NameOID.USER_ID, "u1")]], "UID=u1,DC=com"),
        (
            [[(NameOID.STREET_ADDRESS, "S 1")], [(NameOID.STATE_OR_PROVINCE_NAME, "a")]],
            "ST=a,STREET=S 1",
        ),
        ([[(NameOID.TITLE, "Dr")], [(NameOID.LOCALITY_NAME, "L")]], "L=L,2.5.4.12=#0c024472"),
        ([[(CN, "b"), (O, "a")], [(C, "DE")]], "C=DE,CN=b+O=a"),
        ([[(CN, "Jürgen ☃ 😀")]], "CN=Jürgen ☃ 😀"),
        ([[(CN, "a\0b")]], "CN=a\\00b"),
        ([[(CN, "a\nb\r\tc\r")]], "CN=a\nb\r\tc\\\r"),
        ([[(CN, "  two  ")]], "CN=\\ \\ two\\ \\ "),
        ([[(CN, " ")]], "CN=\\ "),
        ([], ""),
    ],
)
def test_a_subject_is_printed_like_java(rdns: list[RDN], printed: str) -> None:
    assert subject_of(certificate(*rdns)) == printed


@pytest.mark.parametrize(
    ("kind", "text", "printed"),
    [
        (Kind.BMPString, "Jü", "CN=\\00J\\00\ufffd"),
        (Kind.T61String, "J", "CN=J"),
        (Kind.IA5String, "ia5", "CN=ia5"),
        (Kind.VisibleString, "vis", "CN=#1a03766973"),
        (Kind.NumericString, "123", "CN=#1203313233"),
        (Kind.UniversalString, "u", "CN=#1c0400000075"),
    ],
)
def test_other_types_of_strings_are_printed_like_java(kind: Kind, text: str, printed: str) -> None:
    assert subject_of(certificate([(CN, text)], kind=kind)) == printed


@pytest.mark.parametrize("year", [2049, 2050, 2056])
def test_the_end_of_validity_is_read(year: int) -> None:
    end = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert expiry_of(certificate([(CN, "x")], end=end)) == end.timestamp()


@pytest.mark.parametrize("wrong", [b"490304050607+", b"490304050607z", b"49W014050607Z"])
def test_a_time_of_another_form_is_a_value_error(wrong: bytes) -> None:
    found = certificate([(CN, "x")], end=datetime(2049, 3, 4, 5, 6, 7, tzinfo=UTC))
    changed = found.replace(b"490304050607Z", wrong)
    assert changed != found
    with pytest.raises(ValueError, match="is no time of a certificate"):
        expiry_of(changed)


WHOLE = certificate([(CN, "x")], [(O, "y" * 200)])


@given(st.integers(0, len(WHOLE) - 1))
def test_a_part_of_a_certificate_is_a_value_error(size: int) -> None:
    for read in (subject_of, expiry_of):
        with pytest.raises(ValueError, match=r"."):
            read(WHOLE[:size])


@given(st.data())
def test_changed_bytes_raise_nothing_else(data: st.DataObject) -> None:
    changed = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(WHOLE) - 1))] = data.draw(st.integers(0, 255))
    for read in (subject_of, expiry_of):
        with contextlib.suppress(ValueError):
            read(bytes(changed))
