"""A run on a folder of tables that a power cut ends: what was not synced is gone."""

import shutil
from contextlib import nullcontext

import pytest

from groupkeeper.analytics.store.resume import NAME as STATE
from tests.analytics.churn import churn
from tests.analytics.logs import write_segment
from tests.analytics.power import Cache, Death, KilledError
from tests.analytics.stored import analyzed, ask_little, ended, rows, same


@pytest.mark.parametrize("names", [False, True])
def test_a_power_cut_anywhere_leaves_no_trace(names, tmp_path, monkeypatch):
    ask_little(monkeypatch)
    data, _ = churn()
    log, out = tmp_path / "log" / "__consumer_offsets-0", tmp_path / "out"
    few = len(data) // 9
    write_segment(log, 0, data[: few // 2])
    analyzed(log, out)
    write_segment(log, 0, data[:few])
    shutil.copytree(out, tmp_path / "alive")
    cache, death = Cache(monkeypatch), Death(monkeypatch)
    analyzed(log, tmp_path / "alive")
    expected, steps = rows(tmp_path / "alive"), [*death.steps]
    counts = next(at for at, each in enumerate(steps) if each[-1] == STATE)
    later = range(counts - 2, len(steps) + 1, 12)
    for at in {*later, counts, counts + 1, len(steps) - 1, len(steps)}:
        folder = shutil.copytree(out, tmp_path / f"lit-{at}")
        cache.write_back(folder)
        death.at, death.steps = at, []
        with pytest.raises(KilledError) if at < len(steps) else nullcontext():
            analyzed(log, folder)
        death.at = None
        left = tmp_path / f"left-{at}"
        cache.lose(folder, left, names=names)
        analyzed(log, left)
        same(rows(left), expected)
        assert ended(left)
