"""ApiVersions 5, which kio does not have yet: a client names the cluster and node that it means to reach (KIP-1242).

Its response is that of version 4.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.api_versions.v4 import request
from kio.static.primitive import i16, i32


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    __type__: ClassVar = request.ApiVersionsRequest.__type__
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = request.ApiVersionsRequest.__api_key__
    __header_schema__: ClassVar[type] = request.ApiVersionsRequest.__header_schema__
    client_software_name: str = field(metadata={"kafka_type": "string"})
    client_software_version: str = field(metadata={"kafka_type": "string"})
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=i32(-1))
