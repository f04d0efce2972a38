import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Cleans folders of partitions with Kafka's own cleaner, each as a broker does that starts on it.
 *
 * One job a line: folder, time, first dirty offset, delete.retention.ms, producer.id.expiration.ms,
 * segment bytes, keys in the map, log start offset; the answer is the next first dirty offset.
 */
public final class CleanFolders {
    private static final int BUFFER = 1024 * 1024;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(clean(line.split("\t")));
            System.out.flush();
        }
    }

    private static long clean(String[] job) throws Exception {
        FixedTime time = new FixedTime(Long.parseLong(job[1]));
        long firstDirty = Long.parseLong(job[2]);
        Properties properties = new Properties();
        properties.put("cleanup.policy", "compact");
        properties.put("delete.retention.ms", job[3]);
        properties.put("internal.segment.bytes", job[5]);
        properties.put("max.message.bytes", Integer.toString(BUFFER));
        long start = Long.parseLong(job[7]);
        int expiration = Integer.parseInt(job[4]);
        UnifiedLog log = UnifiedLog.create(new File(job[0]), new LogConfig(properties), start, start,
            new Never(), new BrokerTopicStats(), time, 900_000,
            new ProducerStateManagerConfig(expiration, false), 600_000,
            new LogDirFailureChannel(1), false, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        log.removeExpiredProducers(time.milliseconds());
        long uncleanable = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        Throttler throttler = new Throttler(1e12, 300, "cleaner-io", "bytes", time);
        SkimpyOffsetMap map = new SkimpyOffsetMap(Integer.parseInt(job[6]) * 24);
        Cleaner cleaner = new Cleaner(0, map, BUFFER, BUFFER, 1.0, throttler, time, partition -> { });
        Map.Entry<Long, CleanerStats> cleaned =
            cleaner.doClean(new LogToClean(log, firstDirty, uncleanable, false), time.milliseconds());
        log.closeHandlers();
        return cleaned.getKey();
    }

    private static final class FixedTime implements Time {
        private final long now;

        FixedTime(long now) {
            this.now = now;
        }

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new IllegalStateException("nothing waits");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new IllegalStateException("nothing waits");
        }
    }

    /** Replaced segments keep their files, renamed to .deleted. */
    private static final class Never implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return null;
        }

        @Override
        public void resizeThreadPool(int threads) {
        }
    }
}
