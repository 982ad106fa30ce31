"""`/v1/rates`: the rates and levels over time of what was produced, consumed, committed and used."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from oncelog_gateway.core.charts import span_until
from oncelog_gateway.core.rate_families import FAMILIES, FAMILY_OF, FamilyName
from oncelog_gateway.problems import described
from oncelog_gateway.rate_resources import RateLine, RateSeries, RatesOverTime, SilentProcess
from oncelog_gateway.rates import Rates

POINTS_MAX: Final = 240
STEPS_MS: Final = (60_000, 120_000, 300_000, 600_000)
FINE_MINUTES: Final = 15
FINE_STEP_MS: Final = 5_000
MINUTES_MAX: Final = 1_440


def rates_router(rates: Rates) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["rates"])

    @router.get(**described("/rates", "Rates and levels over time"))
    async def rates_over_time(
        minutes: Annotated[
            int, Query(ge=FINE_MINUTES, le=MINUTES_MAX, description="how far back")
        ] = FINE_MINUTES,
        series: Annotated[
            list[FamilyName] | None,
            Query(max_length=len(FAMILIES), description="only these; repeat it for several"),
        ] = None,
        name: Annotated[
            str | None,
            Query(max_length=300, description="only lines of this name, such as a topic"),
        ] = None,
    ) -> RatesOverTime:
        """Rates from the memory of this gateway, which begins anew with its process. The busiest names have lines of
        their own, the others share one.
        """
        wanted = list(dict.fromkeys(series)) if series else list(FAMILY_OF)
        span = span_until(rates.now(), minutes, _step_ms(minutes))
        return RatesOverTime(
            since_ms=rates.since_ms,
            step_ms=span.step_ms,
            times_ms=list(range(span.first_ms, span.end_ms, span.step_ms)),
            series=[
                RateSeries(
                    series=one,
                    unit=FAMILY_OF[one].unit,
                    names=FAMILY_OF[one].of,
                    note=FAMILY_OF[one].note,
                )
                for one in wanted
            ],
            lines=[
                RateLine(series=family, name=line.name, values=line.values)
                for family in wanted
                for line in rates.lines(family, span)
                if name is None or line.name == name
            ],
            silent=[
                SilentProcess(process=process, reason=reason)
                for process, reason in rates.silent.items()
            ],
        )

    return router


def _step_ms(minutes: int) -> int:
    if minutes <= FINE_MINUTES:
        return FINE_STEP_MS
    return next(one for one in STEPS_MS if minutes * 60_000 // one <= POINTS_MAX)
