"""`/v1/features`: the finalized levels of protocol features, transaction.version and group.version."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.operators import Operator, Operators
from oncelog_gateway.problems import described
from oncelog_gateway.resources import RequestBody, Resource
from oncelog_gateway.roles import Roles, raise_for

LEVEL_MAX = 32_767

FeatureName = Annotated[str, Path(min_length=1, max_length=100, examples=["transaction.version"])]


class FeatureLevel(Resource):
    feature: str = Field(examples=["transaction.version"])
    level: int = Field(description="the finalized level; clients follow it", examples=[2])


class FeatureList(Resource):
    features_epoch: int = Field(description="grows with each change")
    features: list[FeatureLevel]


class FeatureChange(RequestBody):
    level: int = Field(ge=0, le=LEVEL_MAX, examples=[2])
    allow_downgrade: bool = Field(
        False, description="the level may be lower than the one that is finalized"
    )
    validate_only: bool = Field(False, description="check, and change nothing")


class Features:
    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    def list(self) -> FeatureList:
        image = self._roles.image
        return FeatureList(
            features_epoch=image.features_epoch,
            features=[
                FeatureLevel(feature=name, level=level)
                for name, level in sorted(image.known_levels.items())
            ],
        )

    async def change(self, operator: Operator, feature: str, body: FeatureChange) -> FeatureList:
        """Change the finalized level of a feature. Raises KafkaError. Returns once this gateway's metadata image shows
        the change.
        """
        known = self._roles.image.known_levels.get(feature)
        if known is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"there is no feature {feature!r}; GET /v1/features lists all",
            )
        if body.level < known and not body.allow_downgrade:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{feature} is at {known}; allow_downgrade lets it go down to {body.level}",
            )
        request = pb.UpdateFeaturesRequest(
            levels={feature: body.level}, validate_only=body.validate_only
        )
        if body.validate_only:
            await self._ask(request)
            return self.list()
        details = {"feature": feature, **body.model_dump()}
        async with self._audit.attempt(operator, "update_feature", details) as attempt:
            await self._ask(request)
            attempt.detail = f"{feature} is {body.level}, it was {known}"
        return self.list()

    async def _ask(self, request: pb.UpdateFeaturesRequest) -> None:
        answer = await self._roles.ask_controller(
            lambda controller: controller.UpdateFeatures, request
        )
        raise_for(answer.status.error_code, answer.status.error_message)
        if not request.validate_only:
            await self._roles.seen(answer.metadata_offset)


def features_router(features: Features, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["cluster"])

    @router.get(**described("/features", "List features"))
    async def list_features() -> FeatureList:
        """The finalized levels of features. Clients read the same from ApiVersions."""
        return features.list()

    @router.put(
        **described("/features/{feature}", "Change a feature's level", 400, 403, 404, 409, 413)
    )
    async def change_feature(
        request: Request, feature: FeatureName, body: FeatureChange
    ) -> FeatureList:
        """Changes the level of a feature. A transaction that is under way ends with the protocol that it began with."""
        return await features.change(operators.of(request), feature, body)

    return router
