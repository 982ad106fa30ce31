"""`ssl.principal.mapping.rules`, case by case as Kafka's SslPrincipalMapper."""

import pytest

from oncelog.security.principal import ANONYMOUS
from oncelog.security.ssl_principal import NoMatchingRuleError, PrincipalRules


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
        "DEFAULT, RULE:a/b/ x",
    ],
)
def test_a_malformed_rule_is_quoted(rules):
    with pytest.raises(ValueError, match=r"Invalid rule: `.+`, unmatched substring: `.+`"):
        PrincipalRules(rules)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("RULE:^CN=(.*$/$1/", "missing ), unterminated subpattern"),
        ("RULE:^CN=.*$/$1/", "`$1` names no group"),
        ("RULE:^CN=(.*)$/a$/", "`$` names no group"),
    ],
)
def test_a_rule_that_could_never_map_is_refused_at_once(rules, said):
    with pytest.raises(ValueError, match="Invalid rule: ") as refused:
        PrincipalRules(rules)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("parsed", "rules"),
    [
        ("[]", ""),
        ("[DEFAULT]", "DEFAULT"),
        ("[RULE:/]", "RULE://"),
        ("[RULE:/.*]", "RULE:/.*/"),
        ("[RULE:/.*/L]", "RULE:/.*/L"),
        ("[RULE:/, DEFAULT]", "RULE://,DEFAULT"),
        ("[RULE:/, DEFAULT]", "  RULE:// ,  DEFAULT  "),
        ("[RULE:   /     , DEFAULT]", "  RULE:   /     / ,  DEFAULT  "),
        ("[RULE:  /     /U, DEFAULT]", "  RULE:  /     /U   ,DEFAULT  "),
        (
            "[RULE:([A-Z]*)/$1/U, RULE:([a-z]+)/$1, DEFAULT]",
            "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
        ),
        ("[]", ",   , , ,      , , ,   "),
        ("[RULE:/, DEFAULT]", ",,RULE://,,,DEFAULT,,"),
        ("[RULE: /   , DEFAULT]", ",  , RULE: /   /    ,,,   DEFAULT, ,   "),
        ("[RULE:   /  /U, DEFAULT]", "     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,"),
        (r"[RULE:\/\\\(\)\n\t/\/\/]", r"RULE:\/\\\(\)\n\t/\/\//"),
        (r"[RULE:\**\/+/a/L, RULE:\/*\**/aa]", r"RULE:\**\/+/a/L,RULE:\/*\**/aa/"),
        (
            r"[RULE:,RULE:,/,RULE:,\//U, RULE:,/RULE:,, RULE:,RULE:,/L,RULE:,/L, "
            r"RULE:, DEFAULT, /DEFAULT, DEFAULT]",
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,"
            r"RULE:, DEFAULT, /DEFAULT/,DEFAULT",
        ),
        ("[RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1]", "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/"),
        (
            "[RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT]",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        ),
    ],
)
def test_rules_are_split_as_by_kafka(parsed, rules):
    assert str(PrincipalRules(rules)) == parsed


RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        (RULES, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (RULES, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        (
            r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT",
            r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz",
            r"Tkac\, Adam",
        ),
        ("RULE:^CN=(.*?),O=(.*)$/$1@$4/", "CN=a,O=b", "a@$4"),
        ("RULE:^CN=(.*?),O=(.*)$/$12/", "CN=a,O=b", "a2"),
        ("RULE:^CN=(.*?),O=(.*)$/$0!/", "CN=a,O=b", "CN=a,O=b!"),
        (r"RULE:^CN=(.*)$/\$1\\x/", "CN=a", r"$1\x"),
        ("RULE:.*/x/", "CN=a", "xx"),
        (r"RULE:^CN=(\w+)$/$1/,DEFAULT", "CN=zoë", "CN=zoë"),
        ("DEFAULT", "", ""),
    ],
)
def test_the_first_matching_rule_gives_the_name(rules, subject, name):
    assert PrincipalRules(rules).name_of(subject) == name


@pytest.mark.parametrize("rules", ["", "RULE:^CN=x$/y/"])
def test_a_subject_without_a_rule_has_no_name(rules):
    with pytest.raises(NoMatchingRuleError, match="No rules apply to 'CN=a'"):
        PrincipalRules(rules).name_of("CN=a")


def test_a_client_without_a_certificate_is_anonymous():
    assert PrincipalRules("").principal_of(None) is ANONYMOUS
