"""Rules that make names from subjects; the cases are those of Kafka's mapper."""

import pytest

from groupkeeper.access.principal_mapping import NoRuleMatches, PrincipalMapping

SERVICES = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L"
PEOPLE = "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"
DOMAINS = "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U"
ANY_NAME = "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
ALL = ", ".join((SERVICES, PEOPLE, DOMAINS, ANY_NAME, "DEFAULT"))


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(subject: str, name: str) -> None:
    assert PrincipalMapping(ALL).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT", "CN=Tkac\\, Adam,OU=ITZ", "Tkac\\, Adam"),
        ("RULE:a\\/b/\\/x\\//", "a/b", "/x/"),
        ("  RULE: a /   /  , DEFAULT ", " a ", "   "),
        (",  , RULE:a/b/    ,,,   DEFAULT, ,   ", "a", "b"),
        ("RULE:a,b/x,y/U, DEFAULT", "a,b", "X,Y"),
        ("RULE:(a)(b)/$2$1/", "ab", "ba"),
        ("RULE:(a)(b)/$1@$3/", "ab", "a@$3"),
        ("RULE:(a)(b)/$21/", "ab", "b1"),
        ("RULE:(a)|(b)/$1$2-/", "b", "b-"),
        ("RULE:(?P<who>a)/${who}!/", "a", "a!"),
        ("RULE:a/\\$1/", "a", "$1"),
        ("RULE:.*/x/", "abc", "xx"),  # Java's replaceAll: the empty rest is a match, too
        ("RULE:a|ab/x/", "ab", "xb"),
        ("RULE:a//", "a", ""),
        ("DEFAULT", "CN=a", "CN=a"),
    ],
)
def test_patterns_and_replacements_are_read_like_java(rules: str, subject: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(subject) == name


def test_commas_and_slashes_in_rules_do_not_end_them() -> None:
    rules = (
        "RULE:,RULE:,/,RULE:,\\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,"
        "RULE:, DEFAULT, /DEFAULT/,DEFAULT"
    )
    mapping = PrincipalMapping(rules)
    names = [mapping.name_of(each) for each in (",RULE:,", ",", ", DEFAULT, ", "else")]
    assert names == [",RULE:,/", "RULE:,", "DEFAULT", "else"]


@pytest.mark.parametrize("rules", ["", ",   , , ,      , , ,   ", "RULE:b/x/"])
def test_without_a_rule_that_matches_there_is_no_name(rules: str) -> None:
    with pytest.raises(
        NoRuleMatches, match=r"no rule of ssl.principal.mapping.rules applies to 'a'"
    ):
        PrincipalMapping(rules).name_of("a")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(/x/",
        "RULE:a/$1/",
        "RULE:(a)/${who}/",
        "RULE:(a)/x$/",
    ],
)
def test_wrong_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        PrincipalMapping(rules)
