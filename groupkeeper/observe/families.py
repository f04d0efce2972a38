"""Families of prometheus-client from plain numbers, under the prefix `groupkeeper_`."""

from collections.abc import Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from groupkeeper.observe.metrics import Histogram

Samples = Mapping[tuple[str, ...], float]
"""Label values -> value; one empty tuple where there are no labels."""


def labelled(counts: Mapping[str, float]) -> Samples:
    """Of one label."""
    return {(value,): number for value, number in counts.items()}


def gauge(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(GaugeMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def counter(name: str, text: str, samples: Samples, labels: Sequence[str] = ()) -> Metric:
    return _filled(CounterMetricFamily(f"groupkeeper_{name}", text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, number in samples.items():
        family.add_metric(values, number)
    return family


def histogram(
    name: str, text: str, samples: Mapping[tuple[str, ...], Histogram], labels: Sequence[str] = ()
) -> Metric:
    family = HistogramMetricFamily(f"groupkeeper_{name}", text, labels=labels)
    for values, times in samples.items():
        running, buckets = 0, []
        for bound, count in zip([*map(str, times.bounds), "+Inf"], times.counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(values, buckets, times.total)
    return family
