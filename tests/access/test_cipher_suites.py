"""Cipher suites under Java's names, as `SSLServerSocketFactory` of Java 17 lists them."""

import pytest

from groupkeeper.access.cipher_suites import TLS_1_3, cipher_suites


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_names_of_java_are_translated(java: str, openssl: str) -> None:
    assert cipher_suites([java]) == (openssl, False)


def test_order_is_kept_and_the_signal_among_them_is_no_suite() -> None:
    names = ["AES256-SHA256", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "TLS_RSA_WITH_AES_128_CBC_SHA"]
    assert cipher_suites([*names, *TLS_1_3]) == ("AES256-SHA256:AES128-SHA", True)
    assert cipher_suites(TLS_1_3) == ("", True)


@pytest.mark.parametrize(
    "name",
    [
        "TLS_RSA_WITH_ROT13",
        "SSL_RSA_WITH_RC4_128_MD5",
        "ALL",
        "",
        "TLS_DH_anon_WITH_AES_128_CBC_SHA",
    ],
)
def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=f"^'{name}' is no cipher suite"):
        cipher_suites([name])


def test_some_suites_of_tls_1_3_cannot_be_chosen() -> None:
    with pytest.raises(
        ValueError, match=r"^TLS 1.3 with some of its suites only: give all of TLS_AES"
    ):
        cipher_suites(["TLS_AES_128_GCM_SHA256"])
