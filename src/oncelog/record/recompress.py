"""A batch in another codec, for topics whose `compression.type` is not `producer`.

```
header (its codec, length and CRC change)  records (their bytes stay, packed in another way)
```

Records mean the same in every codec: offsets and timestamps count from the header, which keeps its producer id, epoch,
sequence, timestamps and the transactional bit. So nothing inside is decoded.
"""

import struct
from typing import Final

from crc32c import crc32c

from oncelog.record.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    Buffer,
    Codec,
    read_header,
)
from oncelog.record.codecs import compress, decompress

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21


def recompressed(batch: Buffer, codec: Codec, level: int | None = None) -> bytes:
    """Return the batch with its records in `codec`. Raises what `decompress` raises."""
    header = read_header(batch)
    body = memoryview(batch)[HEADER_BYTES:]
    plain = decompress(header.codec, body) if header.codec else body
    packed = compress(codec, plain, level)
    out = bytearray(batch[:HEADER_BYTES])
    out += packed
    struct.pack_into(">i", out, _LENGTH_AT, len(out) - LENGTH_PREFIX_BYTES)
    struct.pack_into(">h", out, _ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[_ATTRIBUTES_AT:]))
    return bytes(out)
