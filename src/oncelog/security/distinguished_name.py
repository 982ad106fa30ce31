r"""The subject of a certificate as Java prints it, because Kafka's ACLs name the holder of a certificate by that text.

`X500Principal.getName()` follows RFC 2253, in its own way (checked against Java 17):

- The last attribute comes first: `CN=alice,O=oncelog`.
- Nine attribute types have a name. All others are `1.2.840.113549.1.9.1=#16056140622e63`: the OID and the value's DER.
- `, = + < > # ; " \` get a backslash wherever they stand, spaces only at the two ends, NUL becomes `\00`.
- Bytes are read as UTF-8 whatever string type they declare.

So the text needs the certificate's bytes. The dict of `getpeercert()` has lost the types of its values.
"""

from collections.abc import Iterator

_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_TEXTS = {0x0C: "UTF8", 0x13: "Printable", 0x14: "T61", 0x16: "IA5", 0x1B: "General", 0x1E: "BMP"}
_ESCAPED = ',=+<>#;"\\'


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, as `getpeercert(binary_form=True)` returns it. Raises ValueError."""
    try:
        to_be_signed = _only(_only(certificate, _SEQUENCE, is_whole=True), _SEQUENCE)
        fields = list(_elements(to_be_signed))
        # version (optional), serial number, signature algorithm, issuer, validity, subject
        at = 5 if fields[0][0] == _VERSION else 4
        tag, subject, _ = fields[at]
        if tag != _SEQUENCE:
            raise ValueError("the subject is no name")
        return ",".join(_relative_name(name) for name in reversed(list(_sets(subject))))
    except (IndexError, ValueError) as error:
        raise ValueError(f"the certificate is no X.509 certificate in DER: {error}") from None


def _sets(subject: bytes) -> Iterator[bytes]:
    for tag, content, _ in _elements(subject):
        if tag != _SET:
            raise ValueError("a part of the subject is no set")
        yield content


def _relative_name(content: bytes) -> str:
    """Return one part of a distinguished name as text, such as `CN=alice`. Several attributes in one part have `+`
    between them."""
    return "+".join(_attribute(attribute) for _, attribute, _ in _elements(content))


def _attribute(content: bytes) -> str:
    (oid_tag, oid, _), (tag, value, encoded) = _elements(content)
    if oid_tag != _OID:
        raise ValueError("an attribute of the subject has no type")
    dotted = _dotted(oid)
    if dotted in _NAMES and tag in _TEXTS:
        return f"{_NAMES[dotted]}={_escaped(value.decode('utf-8', 'replace'))}"
    return f"{_NAMES.get(dotted, dotted)}=#{encoded.hex()}"


def _escaped(value: str) -> str:
    body = value.strip(" ")
    start = len(value) - len(value.lstrip(" ")) if body else len(value)
    end = len(value) - start - len(body)
    escaped = "".join(f"\\{sign}" if sign in _ESCAPED else sign for sign in body)
    return "\\ " * start + escaped.replace("\0", "\\00") + "\\ " * end


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(part) for part in (first, numbers[0] - 40 * first, *numbers[1:]))


def _only(content: bytes, tag: int, *, is_whole: bool = False) -> bytes:
    """Return the content of the first DER element, which must have this tag. `is_whole`: no other element may
    follow."""
    elements = list(_elements(content))
    if elements[0][0] != tag or (is_whole and len(elements) != 1):
        raise ValueError("it does not begin with a sequence that holds all of it")
    return elements[0][1]


def _elements(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, content and whole encoding of each DER element in `content`."""
    start = 0
    while start < len(content):
        tag, length, body = content[start], content[start + 1], start + 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise ValueError(f"a length of {count} bytes")
            length = int.from_bytes(content[body : body + count])
            body += count
        end = body + length
        if end > len(content):
            raise ValueError("it is cut off")
        yield tag, content[body:end], content[start:end]
        start = end
