"""Subjects as Java 17 prints them: each expected text is what `X500Principal.getName()` said of the same subject."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID as Type

from oncelog.security.distinguished_name import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
BEGIN = datetime.datetime(2026, 1, 1)


def certificate(*names):
    """Each name is one attribute (type, value) with an optional kind of string, or a list of them."""
    rows = [name if isinstance(name, list) else [name] for name in names]
    made = [
        x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in row]) for row in rows
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(made))
        .issuer_name(x509.Name([x509.NameAttribute(Type.COMMON_NAME, "some CA")]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(BEGIN)
        .not_valid_after(BEGIN + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


CN, ORG, OU, UID, DC = (
    Type.COMMON_NAME,
    Type.ORGANIZATION_NAME,
    Type.ORGANIZATIONAL_UNIT_NAME,
    Type.USER_ID,
    Type.DOMAIN_COMPONENT,
)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (
            [
                (Type.COUNTRY_NAME, "US"),
                (Type.STATE_OR_PROVINCE_NAME, "MD"),
                (Type.LOCALITY_NAME, "Fulton"),
                (ORG, "my, corp"),
                (OU, "SME"),
                (CN, "Duke"),
            ],
            r"CN=Duke,OU=SME,O=my\, corp,L=Fulton,ST=MD,C=US",
        ),
        (
            [(DC, "com"), (DC, "example"), (UID, "jd"), (CN, "John Doe")],
            "CN=John Doe,UID=jd,DC=example,DC=com",
        ),
        (
            [
                (Type.EMAIL_ADDRESS, "a@b.c"),
                (Type.SERIAL_NUMBER, "12"),
                (Type.SURNAME, "Doe"),
                (CN, "x"),
            ],
            "CN=x,2.5.4.4=#0c03446f65,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([(CN, 'a"b\\c+d;e<f>g=h#i')], r"CN=a\"b\\c\+d\;e\<f\>g\=h\#i"),
        ([(CN, "#lead"), (ORG, " sp ace ")], r"O=\ sp ace\ ,CN=\#lead"),
        ([(CN, "zoë 日本 😀")], "CN=zoë 日本 😀"),
        ([[(CN, "b"), (OU, "a"), (UID, "z")], (ORG, "o")], "O=o,CN=b+OU=a+UID=z"),
        (
            [[(CN, "x"), (Type.EMAIL_ADDRESS, "e@x")]],
            "CN=x+1.2.840.113549.1.9.1=#1603654078",
        ),
        ([(Type.STREET_ADDRESS, "s 1"), (Type.POSTAL_CODE, "12")], "2.5.4.17=#0c023132,STREET=s 1"),
        ([(CN, "a  b"), (ORG, "x\ny")], "O=x\ny,CN=a  b"),
        ([(CN, "a,b"), (ORG, "  ")], r"O=\ \ ,CN=a\,b"),
        ([(CN, "a\0b")], r"CN=a\00b"),
        ([(CN, "a ,b\\ ")], r"CN=a \,b\\\ "),
        ([(x509.ObjectIdentifier("1.2.3.4"), "hi"), (CN, "x")], "CN=x,1.2.3.4=#0c026869"),
        ([(x509.ObjectIdentifier("2.999.300"), "hi")], "2.999.300=#0c026869"),
        ([(CN, "printable", Kind.PrintableString)], "CN=printable"),
        ([(CN, "aé", Kind.T61String)], "CN=aé"),
        ([(CN, "ab", Kind.BMPString)], r"CN=\00a\00b"),
        ([(CN, "ab", Kind.UniversalString)], "CN=#1c080000006100000062"),
        ([(CN, "ab", Kind.NumericString)], "CN=#12026162"),
        ([(CN, "ab", Kind.VisibleString)], "CN=#1a026162"),
        ([], ""),
    ],
)
def test_a_subject_is_printed_as_by_java(names, text):
    assert subject_of(certificate(*names)) == text


def test_a_long_subject_is_read():
    names = [(OU, "x" * 60)] * 40  # lengths of two bytes
    assert subject_of(certificate(*names)) == ",".join(["OU=" + "x" * 60] * 40)


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 40, 90])
def test_a_cut_certificate_is_refused(cut):
    with pytest.raises(ValueError, match=r"no X\.509 certificate in DER"):
        subject_of(certificate((CN, "x"))[:cut])


@pytest.mark.parametrize("junk", [b"-----BEGIN CERTIFICATE-----", b"\x30\x80\x00\x00", b"\x30\x00"])
def test_what_is_no_certificate_is_refused(junk):
    with pytest.raises(ValueError, match=r"no X\.509 certificate in DER"):
        subject_of(junk)
