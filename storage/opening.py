"""
What is in the folder of a log, put together with what is known of it.

Finds out, cuts and mends; the batches that only a journal holds are appended by log.py.
"""

from groupkeeper.storage.epochs import FILE_NAME as EPOCH_FILE
from groupkeeper.storage.epochs import EpochFile
from groupkeeper.storage.errors import ACCEPT_FILE
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.manifest import Finished, read_manifest
from groupkeeper.storage.marks import Mark, newest
from groupkeeper.storage.recovery import Cover, Findings, sound_end
from groupkeeper.storage.salvage import salvage
from groupkeeper.storage.segment import Segment, base_of, segment_path
from groupkeeper.storage.start import FILE_NAME as START_FILE
from groupkeeper.storage.start import read_start


class Opening:
    """One folder, read by `run`: its segments and where they begin and end."""

    def __init__(self, files: Files, folder: str, limits: Limits, cover: Cover | None) -> None:
        self._files = files
        self._folder = folder
        self._limits = limits
        self._cover = cover
        names = files.list_folder(folder)
        self._names = frozenset(names)
        self.accepted = ACCEPT_FILE in names
        self.findings = Findings(folder, accepted=self.accepted)
        self.manifest, flaw = read_manifest(files, folder)
        if flaw:
            self.findings.repairs.append(flaw)
        self.deleted_before = read_start(files, folder) if START_FILE in names else 0
        self.segments: tuple[Segment, ...] = ()
        self.epochs = EpochFile(files, folder)
        self.next_offset = 0
        self._may_lack = cover is not None and cover.may_lack
        self.cut = False
        """Bytes were cut off, and that is not synced."""

    def run(self, end: int) -> None:
        """Raises Corrupt and OSError. From offset `end` on nothing counts."""
        bases = sorted(base for base in map(base_of, self._names) if base is not None)
        finished = self._finished(bases)
        for base in bases:
            segment = Segment(self._files, self._folder, base, self._limits)
            segment.finished = finished.get(base)
            self.segments = (*self.segments, segment)
            self.next_offset = base
        for segment in self.segments[:-1]:
            self._check_size(segment)
        if self.accepted:
            self._salvage(bases)
        for segment in self.segments[:-1]:
            segment.load_index()
        if bases:
            self.epochs.load(bases[-1])
            self._end(self.segments[-1], end)

    def expected(self, end: int) -> int:
        """The offset up to which the log must go, if nothing is lost; 0 if nobody knows."""
        mark = self._mark(end)
        told = self._cover.end if self._cover is not None else 0
        expected = max(told, mark.end if mark else 0)
        return 0 if expected <= max(self.manifest.given_up, self.deleted_before) else expected

    def check_end(self, next_offset: int, end: int, rounds_lost_at: int) -> None:
        """Raises Corrupt if a log that now goes up to `next_offset` went on, or may have."""
        damage = self._cover.damage if self._cover is not None else ""
        why = f" ({damage})" if damage else ""
        expected = self.expected(end)
        has_segments = any(base_of(name) is not None for name in self._names)
        known = EPOCH_FILE in self._names and self.manifest.given_up < 0
        if known and not has_segments and not next_offset:
            self.findings.lost(f"{self._folder}: its segments are missing")
        elif next_offset < expected:
            self.findings.lost(
                f"{self._folder} ends at offset {next_offset}, but went on to {expected - 1}{why}"
            )
        elif self._may_lack and next_offset > self.manifest.given_up:
            self.findings.lost(f"{self._folder} may lack records from offset {next_offset} on{why}")
        elif next_offset <= rounds_lost_at and not self._is_held(rounds_lost_at - 1):
            self.findings.lost(
                f"{self._folder} may lack records from offset {next_offset} on: a journal that "
                f"they went through is missing from {parent_of(self._folder)}/journals{why}"
            )

    def _is_held(self, offset: int) -> bool:
        """By a journal: that one was put back, if it was missing."""
        return self._cover is not None and self._cover.reaches(offset, offset + 1)

    def _mark(self, end: int) -> Mark | None:
        """The newest, unless it holds no more."""
        mark = newest(self.manifest.mark, self._cover.mark if self._cover is not None else None)
        void = max(self.manifest.given_up, self.deleted_before)
        return None if mark is None or mark.end <= void or mark.end > end else mark

    def _finished(self, bases: list[int]) -> dict[int, Finished]:
        """What the manifest says of the segments there are. All that it names must be there."""
        finished = {}
        for each in self.manifest.finished:
            if each.base in bases:
                finished[each.base] = each
            elif each.end > self.deleted_before:
                path = segment_path(self._folder, each.base)
                self.findings.lost(f"{path} is missing: offsets {each.base} to {each.end - 1}")
        begun = self.manifest.begun
        if begun is not None and begun not in bases and begun >= self.deleted_before:
            path = segment_path(self._folder, begun)
            self.findings.lost(f"{path} is missing: offsets from {begun} on")
        return finished

    def _salvage(self, bases: list[int]) -> None:
        """Leave out of all segments what is not sound: what was known of them is not true then."""
        self.segments = ()
        for base, following in zip(bases, [*bases[1:], None], strict=False):
            path = segment_path(self._folder, base)
            self.findings.repairs += salvage(self._files, path, base, following)
            segment = Segment(self._files, self._folder, base, self._limits)
            self.segments = (*self.segments, segment)

    def _check_size(self, segment: Segment) -> None:
        finished = segment.finished
        if finished is None or finished.end <= self.deleted_before:
            return
        if segment.size < finished.size:
            self.findings.lost(
                f"{segment.path} is cut: it has {segment.size} of {finished.size} bytes, offsets "
                f"{segment.base_offset} to {finished.end - 1}"
            )
        elif segment.size > finished.size:
            more = segment.size - finished.size
            self.findings.repairs.append(
                f"{segment.path}: cut off {more} bytes at byte {finished.size}, behind the end"
            )
            segment.truncate(finished.size)

    def _end(self, active: Segment, end: int) -> None:
        """Cut off what does not belong to the last segment, if nothing is lost by that."""
        valid, self.next_offset = sound_end(
            active, self.epochs, end, self._cover, self._mark(end), self.findings
        )
        self.cut = valid != active.size
        if self.cut:
            active.truncate(valid)
