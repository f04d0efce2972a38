"""The mutants: mistakes in rolling, compacting, swapping, keeping and deleting of segments.

A mistake that somebody could make and that costs data, disk or time. One that no test notices is a
missing test: write it first, and name it here.
"""

from tests.mutants.mutant import Mutant

_COMPACTION = "tests/storage/test_compaction.py::"
_SWAP = "tests/storage/test_swap.py::"
_LOG = "tests/storage/test_log.py::"
_CLEANER = "tests/cleaner/test_log_cleaner.py::"
_TOPICS = "tests/cleaner/test_topic_compaction.py::"
_RETENTION = "tests/storage/test_retention.py::"
_POINT = "tests/storage/test_recovery_point.py::"
_SERVING = "tests/server/test_backup_while_serving.py::"
_CRASH = "tests/storage/test_cleaning_crash.py::test_wherever_it_crashes_the_end_is_the_same[lose]"
_OLD_OR_NEW = _SWAP + "test_wherever_it_crashes_a_segment_is_old_or_new[lose]"

REWRITING = "storage/compaction/rewriting.py"
KEY_MAP = "storage/compaction/key_map.py"
SWAP = "storage/compaction/swap.py"
LOG = "storage/log/log.py"
PLAN = "groupkeeper/cleaner/plan.py"

MUTANTS = (
    # -- which records stay
    Mutant(
        "older value kept",
        REWRITING,
        "if key is None or offset < newest(key, -1):",
        "if key is None:",
        (_COMPACTION + "test_records_are_superseded_across_segments_and_batches",),
    ),
    Mutant(
        "newest value lost",
        REWRITING,
        "if key is None or offset < newest(key, -1):",
        "if key is None or offset <= newest(key, -1):",
        (_COMPACTION + "test_records_are_superseded_across_segments_and_batches",),
    ),
    Mutant(
        "newest value lost at the end of a batch",
        REWRITING,
        "newest[following] > base + delta:",
        "newest[following] >= base + delta:",
        (_COMPACTION + "test_records_are_superseded_across_segments_and_batches",),
    ),
    Mutant(
        "unknown key type dropped",
        REWRITING,
        "if key is None or offset < newest(key, -1):",
        'if key is None or key[:2] > b"\\0\\2" or offset < newest(key, -1):',
        (_COMPACTION + "test_records_of_unknown_types_are_kept_by_key",),
    ),
    Mutant(
        "tombstone lost",
        REWRITING,
        "keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms",
        "keeps_tombstones = False",
        (_COMPACTION + "test_a_tombstone_gets_the_delete_horizon_that_kafka_gives_it",),
    ),
    Mutant(
        "tombstone kept for good",
        REWRITING,
        "keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms",
        "keeps_tombstones = True",
        (_COMPACTION + "test_a_tombstone_goes_when_its_horizon_has_come",),
    ),
    Mutant(
        "horizon never reached",
        REWRITING,
        "if horizon_ms is None and (has_tombstone or marks_nothing):",
        "if has_tombstone or marks_nothing:",
        (_COMPACTION + "test_a_tombstone_goes_when_its_horizon_has_come",),
    ),
    Mutant(
        "empty last batch dropped",
        REWRITING,
        "if self._last is not None and writer.next_offset < self._last.next_offset:",
        "if self._last is not None and writer.next_offset < 0:",
        (_COMPACTION + "test_the_last_batch_of_a_segment_is_kept_without_its_records",),
    ),
    Mutant(
        "aborted data kept",
        KEY_MAP,
        "        if kind == COMMIT:\n            self._commit(",
        "        if kind in (ABORT, COMMIT):\n            self._commit(",
        (_COMPACTION + "test_an_aborted_record_goes_and_supersedes_nothing",),
    ),
    Mutant(
        "marker dropped too early",
        REWRITING,
        "return marks_nothing and has_passed, marks_nothing",
        "return marks_nothing, marks_nothing",
        (_COMPACTION + "test_a_marker_outlives_the_records_of_its_transaction",),
    ),
    Mutant(
        "producer forgotten",
        REWRITING,
        'return empty_batch(header) if is_last else b""',
        'return b""',
        (_COMPACTION + "test_the_last_batch_of_a_producer_is_kept_without_its_records",),
    ),
    Mutant(
        "half of the offsets dropped",
        REWRITING,
        "            if key is None or offset < newest(key, -1):\n",
        "            if key is None or offset < newest(key, -1)"
        ' or (has_value and key[:2] == b"\\0\\1" and sum(key) % 2):\n',
        (_COMPACTION + "test_kafka_keeps_the_same",),
    ),
    Mutant(
        "half of the offsets dropped that are alone in their batches",
        REWRITING,
        "            if base < self._keys.newest.get(key, -1):\n",
        "            if base < self._keys.newest.get(key, -1)"
        ' or (has_value and key[:2] == b"\\0\\1" and sum(key) % 2):\n',
        (_COMPACTION + "test_kafka_keeps_the_same", _CRASH),
    ),
    Mutant(
        "tombstone kept half as long",
        REWRITING,
        "min(now_ms + retention_ms, LATEST)",
        "min(now_ms + retention_ms // 2, LATEST)",
        (_COMPACTION + "test_a_tombstone_gets_the_delete_horizon_that_kafka_gives_it",),
    ),
    Mutant(
        "expired producer kept for good",
        KEY_MAP,
        "if producer is None or producer.timestamp_ms <= expired_ms:",
        "if producer is None:",
        (_COMPACTION + "test_the_last_batch_of_a_producer_is_kept_without_its_records",),
    ),
    Mutant(
        "older record of a transaction wins",
        KEY_MAP,
        "if known is None or known < offset:",
        "if known is None or known:",
        (_COMPACTION + "test_a_committed_record_supersedes_from_its_own_offset_on",),
    ),
    # -- what a pass goes through
    Mutant(
        "range that ended early taken for all",
        "storage/compaction/compaction.py",
        "        tuple(segments),\n        keys.end,\n",
        "        tuple(segments),\n        job.segments[-1].end if segments else keys.end,\n",
        (_COMPACTION + "test_the_range_ends_at_the_batch_whose_keys_do_not_fit",),
    ),
    Mutant(
        "dedupe bound ignored",
        KEY_MAP,
        "if self._bytes and self._bytes + size > self._max_bytes:",
        "if self._bytes and size > self._max_bytes:",
        (_COMPACTION + "test_the_range_ends_at_the_batch_whose_keys_do_not_fit",),
    ),
    Mutant(
        "open transaction compacted",
        KEY_MAP,
        "self.end = max(transaction.first, self.first_dirty)",
        "self.end = max(self.end, self.first_dirty)",
        (_COMPACTION + "test_an_open_transaction_ends_the_range",),
    ),
    Mutant(
        "first_dirty not kept",
        LOG,
        "self._manifest.first_dirty = first_dirty",
        "self._manifest.first_dirty = 0",
        (_SWAP + "test_a_swapped_log_has_what_was_kept_and_takes_appends",),
    ),
    Mutant(
        "active segment cleaned",
        PLAN,
        "    dirty: list[Segment] = []\n    for segment, end in log.finished:",
        "    dirty: list[Segment] = []\n"
        "    for segment, end in [*log.finished, (log._segments[-1], log.next_offset)]:",
        (_CLEANER + "test_old_commits_are_compacted_and_the_newest_are_found_by_the_next_start",),
    ),
    Mutant(
        "min lag ignored",
        PLAN,
        "if policy.min_lag_ms and segment.index.max_timestamp > now_ms - policy.min_lag_ms:",
        "if policy.min_lag_ms and segment.index.max_timestamp > now_ms:",
        (_CLEANER + "test_young_segments_are_left_alone",),
    ),
    Mutant(
        "max lag ignored",
        PLAN,
        "overdue = _has_older(dirty, now_ms - policy.max_lag_ms)",
        "overdue = False",
        (_TOPICS + "test_lags_of_the_topic_hold_compaction_back_and_force_it",),
    ),
    Mutant(
        "dirty ratio ignored",
        PLAN,
        "if not overdue and ratio <= policy.min_dirty_ratio:",
        "if not overdue and ratio <= 0:",
        (_CLEANER + "test_a_log_is_left_alone_until_enough_of_it_is_dirty",),
    ),
    Mutant(
        "failed compaction tried again at once",
        "groupkeeper/cleaner/log_cleaner.py",
        "self._retries.failed(log.name, self._clock.seconds())\n        if isinstance",
        "if isinstance",
        (_CLEANER + "test_a_full_disk_fails_the_compaction_and_nothing_else",),
    ),
    # -- how the result gets into the log
    Mutant(
        "swap before sync",
        "storage/compaction/segment_writer.py",
        "        self._files.sync(self._handle)\n",
        "",
        ("tests/storage/test_compaction_faults.py::test_the_result_is_on_the_disk", _CRASH),
    ),
    Mutant(
        "swap before its indexes are synced",
        "storage/compaction/segment_writer.py",
        'self._path(".index"), offsets, sync=True)',
        'self._path(".index"), offsets, sync=False)',
        ("tests/storage/test_compaction_faults.py::test_the_result_is_on_the_disk", _CRASH),
    ),
    Mutant(
        "log goes on after half of a swap",
        SWAP,
        "            self._log.failed = True\n            raise",
        "            raise",
        (_SWAP + "test_a_swap_that_stops_half_way_fails_the_log_until_a_start_completes_it",),
    ),
    Mutant(
        "swap before the names are synced",
        "storage/compaction/compaction.py",
        "            files.sync_folder(job.folder)\n",
        "            pass\n",
        ("tests/storage/test_compaction_faults.py::test_the_result_is_on_the_disk", _CRASH),
    ),
    Mutant(
        "manifest not updated",
        LOG,
        "            self.write_manifest(segments)\n        except",
        "            pass\n        except",
        (_SWAP + "test_a_lost_compacted_segment_is_noticed", _OLD_OR_NEW, _CRASH),
    ),
    Mutant(
        "newest segments swapped first",
        SWAP,
        "for each in self._new:\n                stem = segment_stem(log.folder,",
        "for each in reversed(self._new):\n                stem = segment_stem(log.folder,",
        (_SWAP + "test_new_segments_get_their_names_from_the_oldest_on",),
    ),
    Mutant(
        "source removed before rename",
        SWAP,
        'name = f"{stem}{suffix}"\n',
        'log.files.remove(name := f"{stem}{suffix}")\n',
        (_OLD_OR_NEW.replace("lose", "names"),),
    ),
    Mutant(
        "source stays beside the new segment",
        SWAP,
        "        if inside and not suffix.endswith(SWAP):\n",
        "        if inside and suffix.endswith(CLEANED):\n",
        (_SWAP + "test_a_swapped_log_has_what_was_kept_and_takes_appends",),
    ),
    Mutant(
        ".swap not completed at a start",
        SWAP,
        "_settle(files, folder, names, new or _commit(files, folder, manifest, base, found))",
        "continue",
        (_SWAP + "test_without_a_manifest_a_swap_is_completed_once_losses_are_accepted", _CRASH),
    ),
    Mutant(
        "damaged .swap believed",
        SWAP,
        "elif new is None and (not found.sound or found.end not in bases):",
        "elif new is None and found.end not in bases:",
        (_SWAP + "test_a_new_segment_with_more_than_its_batches_is_dropped",),
    ),
    Mutant(
        ".cleaned not removed",
        SWAP,
        "    remove_cleaned(files, folder)\n    bases",
        "    bases",
        (_SWAP + "test_what_a_compaction_left_behind_is_removed_by_its_token_or_by_a_start",),
    ),
    Mutant(
        "segments replaced that are gone",
        "storage/log/segment.py",
        "        if tuple(bases[first:after]) != sources:\n            return None\n",
        "",
        (_SWAP + "test_a_log_whose_segments_were_deleted_meanwhile_is_not_switched",),
    ),
    # -- the archive
    Mutant(
        "raw segment not archived",
        SWAP,
        "in sources and not (entry is not None and entry.compacted):",
        "in sources and entry is None:",
        (_SWAP + "test_raw_segments_are_in_the_archive_before_they_are_replaced",),
    ),
    Mutant(
        "archive not synced",
        "storage/compaction/archive.py",
        "        for folder in (archive, parent_of(archive), parent_of(parent_of(archive))):",
        "        for folder in ():",
        (_CRASH,),
    ),
    Mutant(
        "archive never emptied",
        "storage/compaction/archive.py",
        "0 <= age < timestamp_ms]",
        "0 <= age < 0]",
        (_CLEANER + "test_raw_segments_are_kept_as_long_as_wanted",),
    ),
    # -- rolling
    Mutant(
        "segment age ignored",
        "storage/log/segment.py",
        "return 0 <= first < timestamp - most or",
        "return False or",
        (_LOG + "test_a_segment_rolls_when_a_batch_is_younger_than_its_first_by_more",),
    ),
    Mutant(
        "segment age forgotten at a start",
        "storage/recovery/opening.py",
        "        active.read_first_timestamp()\n",
        "",
        (_LOG + "test_a_segment_rolls_when_a_batch_is_younger_than_its_first_by_more",),
    ),
    # -- retention
    Mutant(
        "segment deleted by its oldest record",
        "storage/log/retention.py",
        "limits.expired(largest)",
        "limits.expired(segment.first_timestamp)",
        (_RETENTION + "test_a_segment_goes_when_its_youngest_batch_is_too_old",),
    ),
    Mutant(
        "more deleted than is too much",
        "storage/log/retention.py",
        "if excess >= segment.size or",
        "if excess >= 0 or",
        (_RETENTION + "test_the_oldest_goes_while_the_others_have_enough",),
    ),
    # -- starts
    Mutant(
        "damage before a recovery point believed",
        "storage/recovery/recovery_point.py",
        "elif not segment.is_as_written(point.size, point.crc):",
        "elif False:",
        (_POINT + "test_damage_before_the_point_is_told_as_by_a_scan",),
    ),
    Mutant(
        "indexes of another time believed",
        "storage/recovery/recovery_point.py",
        "if not segment.resume_index(point, partial(epochs.checksum, point.end)):",
        "if not segment.resume_index(point, lambda crc: point.check):",
        (_POINT + "test_a_file_that_is_not_as_it_was_makes_the_scan_begin_at_the_start",),
    ),
    # -- backups
    Mutant(
        "backup with another catalog at its end",
        "storage/backup/backup.py",
        "if not all(copier.is_same(name) for name in catalog):",
        "if not all(name in copier.folders for name in catalog):",
        (_SERVING + "test_the_copy_is_a_state_that_the_server_was_in",),
    ),
    Mutant(
        "backup from which a journal is missing",
        "storage/backup/journals.py",
        "if not since or any(a.next_flush != b.first_flush for a, b in pairwise(since)):",
        "if not since:",
        (_SERVING + "test_the_copy_is_a_state_that_the_server_was_in",),
    ),
    Mutant(
        "backup not synced",
        "storage/backup/backup.py",
        "        sync_tree(target, copy_dir)\n",
        "",
        ("tests/storage/test_backup.py::test_a_crash_leaves_a_whole_backup_or_none",),
    ),
    Mutant(
        "damaged backup restored",
        "storage/backup/backup.py",
        "if copy_file(source, path, target, to) != (size, crc):",
        "if copy_file(source, path, target, to)[0] != size:",
        ("tests/storage/test_restore.py::test_a_damaged_backup_is_refused_and_nothing_is_left",),
    ),
)
