package suite;

import static suite.Scene.expect;
import static suite.Scene.same;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * 40 MB from a producer are delivered, by its own account and in the logs: records without keys,
 * sent without waiting, as by ProducerPerformance. They are best run one after the other.
 */
public final class LoadScenarios implements Scenario.Source {
    private static final int PARTITIONS = 50;
    private static final int RECORDS = 40_000;
    private static final int SIZE = 1_000;
    private static final int DIGITS = 8;
    /** For sending, and again for reading. */
    private static final int LIMIT_SECONDS = 35;

    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("load: as by default", s -> load(s)),
            new Scenario("load: batches of 900 kB", s -> load(s, "batch.size", "900000")));
    }

    private static void load(Scene s, String... settings) throws Exception {
        String topic = s.topic(PARTITIONS);
        try (KafkaConsumer<byte[], byte[]> consumer = s.reader(topic, PARTITIONS)) {
            // answered once the broker has taken over every partition: see Scene.produce
            consumer.endOffsets(consumer.assignment());
        }
        produce(s, topic, settings);
        read(s, topic);
    }

    private static void produce(Scene s, String topic, String... settings) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
        AtomicInteger delivered = new AtomicInteger();
        CountDownLatch told = new CountDownLatch(RECORDS);
        KafkaProducer<byte[], byte[]> producer = s.producer(LIMIT_SECONDS, settings);
        try {
            for (int n = 0; n < RECORDS && System.nanoTime() < end; n++) {
                producer.send(new ProducerRecord<>(topic, value(n)), (where, error) -> {
                    if (error == null) {
                        delivered.incrementAndGet();
                    }
                    told.countDown();
                });
            }
            told.await(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            expect(delivered.get() == RECORDS, "%d of %d records delivered in %d s",
                delivered.get(), RECORDS, LIMIT_SECONDS);
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    private static byte[] value(int n) {
        String text = ("%0" + DIGITS + "d").formatted(n) + "x".repeat(SIZE - DIGITS);
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static void read(Scene s, String topic) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
        Set<String> different = new HashSet<>();
        int records = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = s.reader(topic, PARTITIONS)) {
            while (records < RECORDS && System.nanoTime() < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
                    records++;
                    same(SIZE, each.value().length, "bytes");
                    different.add(new String(each.value(), 0, DIGITS, StandardCharsets.US_ASCII));
                }
            }
        }
        same(RECORDS, records, "records");
        same(RECORDS, different.size(), "different records");
    }
}
