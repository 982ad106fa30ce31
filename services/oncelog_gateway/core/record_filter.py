"""A filter for records of a topic: by key, by a header, or by a text anywhere in them. It distinguishes upper and
lower case.
"""

from typing import NamedTuple, Self

from oncelog.record.records import Record, shown_key


class RecordFilter(NamedTuple):
    """The conditions for records to be shown. A record must meet all of them; None: that condition is not set."""

    key: bytes | None = None
    """The whole key of the record."""
    header_name: str | None = None
    header_value: bytes | None = None
    """The whole value of the named header; None: any value, also null."""
    text: bytes | None = None
    """A text that the key, the value or a header's value must contain."""

    @classmethod
    def of(cls, key: str | None, header: str | None, text: str | None) -> Self:
        """Return a filter from the texts of a query. `header` is NAME or NAME=VALUE. An empty text fits every record,
        an empty key fits the empty key.
        """
        name, equals, value = (header or "").partition("=")
        return cls(
            None if key is None else _bytes(key),
            None if header is None else name,
            _bytes(value) if equals else None,
            _bytes(text) if text else None,
        )

    @property
    def is_set(self) -> bool:
        return self != (None, None, None, None)

    def fits(self, record: Record) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        if self.header_name is not None and not any(
            shown_key(name.encode(errors="surrogateescape")) == self.header_name
            and self.header_value in (None, value)
            for name, value in record.headers
        ):
            return False
        return self.text is None or any(
            part is not None and self.text in part
            for part in (record.key, record.value, *(value for _, value in record.headers))
        )


def _bytes(text: str) -> bytes:
    # A text that UTF-8 cannot write fits no record, and is no error.
    return text.encode(errors="surrogatepass")
