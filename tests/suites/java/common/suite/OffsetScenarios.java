package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetMetadataTooLarge;

/** Commits, what comes back of them, positions, and the producer that all records come from. */
public final class OffsetScenarios implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("commit: resume where it was", OffsetScenarios::commitAndResume),
            new Scenario("commit: by the clock and on close", OffsetScenarios::autoCommit),
            new Scenario("commit: with metadata", OffsetScenarios::withMetadata),
            new Scenario("commit: metadata too large", OffsetScenarios::metadataTooLarge),
            new Scenario("commit: async", OffsetScenarios::async),
            new Scenario("manual assignment", OffsetScenarios::manualAssignment),
            new Scenario("seek", OffsetScenarios::seek),
            new Scenario("offsets for times", OffsetScenarios::forTimes),
            new Scenario("no offset and no reset", OffsetScenarios::noReset),
            new Scenario("read committed", OffsetScenarios::readCommitted),
            new Scenario("idempotent producer", OffsetScenarios::idempotent));
    }

    /** Poll until so many records are there. */
    private static int take(KafkaConsumer<?, ?> consumer, int records) {
        int taken = 0;
        for (int i = 0; i < 100 && taken < records; i++) {
            taken += consumer.poll(Duration.ofMillis(100)).count();
        }
        return taken;
    }

    private static void commitAndResume(Scene s) throws Exception {
        String topic = s.topic(2);
        s.produce(topic, 100);
        TopicPartition zero = partition(topic, 0);
        TopicPartition one = partition(topic, 1);
        Member first = s.member();
        first.ask(consumer -> {
            consumer.subscribe(List.of(topic));
            same(100, take(consumer, 100), "records");
            consumer.commitSync(
                Map.of(zero, new OffsetAndMetadata(20), one, new OffsetAndMetadata(30)));
            return null;
        });
        first.close();
        Member second = s.join(topic);
        s.until("the rest", () -> second.consumed().size() >= 50);
        same(50, second.consumed().size(), "records after the commits");
        expect(second.consumed().contains(zero + "@20"), "from 20 on");
        expect(second.consumed().contains(one + "@30"), "from 30 on");
        expect(!second.consumed().contains(zero + "@19"), "not before 20");
    }

    private static void autoCommit(Scene s) throws Exception {
        String topic = s.topic(2);
        s.produce(topic, 50);
        String[] auto = {"enable.auto.commit", "true", "auto.commit.interval.ms", "200"};
        Member first = s.join(topic, auto);
        s.consumed(50);
        s.until("committed by the clock", () -> s.committed().values().stream()
            .mapToLong(OffsetAndMetadata::offset).sum() == 50);
        s.produce(topic, 10);
        s.consumed(60);
        first.close();
        same(60L, s.committed().values().stream().mapToLong(OffsetAndMetadata::offset).sum(),
            "committed on close");
        s.join(topic, auto);
        s.produce(topic, 10);
        s.consumedOnce(70);
    }

    private static void withMetadata(Scene s) throws Exception {
        String topic = s.topic(2);
        Member member = s.join(topic);
        s.shares(2, member);
        OffsetAndMetadata offset = new OffsetAndMetadata(7, Optional.of(0), "für später");
        TopicPartition zero = partition(topic, 0);
        var read = member.ask(consumer -> {
            consumer.commitSync(Map.of(zero, offset));
            return consumer.committed(Set.of(zero, partition(topic, 1)));
        });
        same(offset, read.get(zero), "committed()");
        expect(read.get(partition(topic, 1)) == null, "nothing for the other");
        same(Map.of(zero, offset), s.committed(), "by the Admin");
    }

    private static void metadataTooLarge(Scene s) throws Exception {
        String topic = s.topic(1);
        Member member = s.join(topic);
        s.shares(1, member);
        OffsetAndMetadata fits = new OffsetAndMetadata(1, "x".repeat(4_096));
        OffsetAndMetadata large = new OffsetAndMetadata(2, "x".repeat(4_097));
        TopicPartition zero = partition(topic, 0);
        member.ask(consumer -> {
            consumer.commitSync(Map.of(zero, fits));
            return null;
        });
        throwsError(OffsetMetadataTooLarge.class, () -> member.ask(consumer -> {
            consumer.commitSync(Map.of(zero, large));
            return null;
        }));
        same(Map.of(zero, fits), s.committed(), "committed");
    }

    private static void async(Scene s) throws Exception {
        String topic = s.topic(1);
        Member member = s.join(topic);
        s.shares(1, member);
        TopicPartition zero = partition(topic, 0);
        CompletableFuture<Long> last = new CompletableFuture<>();
        member.ask(consumer -> {
            for (long offset = 1; offset <= 50; offset++) {
                long sent = offset;
                consumer.commitAsync(Map.of(zero, new OffsetAndMetadata(sent)), (of, error) -> {
                    if (error != null) {
                        last.completeExceptionally(error);
                    } else if (sent == 50) {
                        last.complete(of.get(zero).offset());
                    }
                });
            }
            return null;
        });
        same(50L, last.get(20, TimeUnit.SECONDS), "told last");
        same(50L, s.committed().get(zero).offset(), "committed, in the order sent");
    }

    private static void manualAssignment(Scene s) throws Exception {
        String topic = s.topic(2);
        s.produce(topic, 40);
        TopicPartition zero = partition(topic, 0);
        Member member = s.member();
        int taken = member.ask(consumer -> {
            consumer.assign(List.of(zero));
            int all = take(consumer, 20);
            consumer.commitSync();
            return all;
        });
        same(20, taken, "records of one partition");
        same(Map.of(zero, new OffsetAndMetadata(20)), withoutEpoch(s.committed()), "committed");
        var described = s.admin.describeConsumerGroups(List.of(s.group)).all().get().get(s.group);
        same(0, described.members().size(), "members of a simple group");
        expect(described.isSimpleConsumerGroup(), "simple: %s", described);
        Member next = s.member();
        s.produce(topic, 2);
        long position = next.ask(consumer -> {
            consumer.assign(List.of(zero));
            return consumer.position(zero);
        });
        same(20L, position, "position of the next one");
    }

    private static Map<TopicPartition, OffsetAndMetadata> withoutEpoch(
            Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<TopicPartition, OffsetAndMetadata> all = new HashMap<>();
        offsets.forEach((partition, offset) ->
            all.put(partition, new OffsetAndMetadata(offset.offset(), offset.metadata())));
        return all;
    }

    private static void seek(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 30);
        TopicPartition zero = partition(topic, 0);
        Member member = s.join(topic);
        s.consumed(30);
        member.ask(consumer -> {
            consumer.seek(zero, 25);
            same(5, take(consumer, 5), "records from 25 on");
            consumer.seekToBeginning(List.of(zero));
            same(0L, consumer.position(zero), "the beginning");
            consumer.seekToEnd(List.of(zero));
            same(30L, consumer.position(zero), "the end");
            same(Map.of(zero, 0L), consumer.beginningOffsets(List.of(zero)), "first offset");
            same(Map.of(zero, 30L), consumer.endOffsets(List.of(zero)), "end offset");
            return null;
        });
    }

    private static void forTimes(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 20);
        TopicPartition zero = partition(topic, 0);
        Member member = s.member();
        member.ask(consumer -> {
            var found = consumer.offsetsForTimes(Map.of(zero, 1_010L)).get(zero);
            same(10L, found.offset(), "offset of the time");
            same(1_010L, found.timestamp(), "its time");
            same(0L, consumer.offsetsForTimes(Map.of(zero, 1L)).get(zero).offset(), "before all");
            expect(consumer.offsetsForTimes(Map.of(zero, 5_000L)).get(zero) == null, "after all");
            return null;
        });
    }

    private static void noReset(Scene s) throws Exception {
        Member member = s.join(s.topic(1), "auto.offset.reset", "none");
        s.untilFails(member, NoOffsetForPartitionException.class);
    }

    private static void readCommitted(Scene s) throws Exception {
        String topic = s.topic(2);
        s.produce(topic, 20);
        s.join(topic, "isolation.level", "read_committed");
        s.consumedOnce(20);
    }

    private static void idempotent(Scene s) throws Exception {
        String topic = s.topic(2);
        String[] codecs = {"none", "gzip", "snappy", "lz4", "zstd"};
        for (String codec : codecs) {
            s.produce(topic, 200, "enable.idempotence", "true", "compression.type", codec,
                "batch.size", "512", "max.in.flight.requests.per.connection", "5");
        }
        Member member = s.member();
        member.ask(consumer -> {
            consumer.subscribe(List.of(topic));
            Map<Integer, Long> next = new HashMap<>();
            for (int i = 0, taken = 0; i < 200 && taken < 200 * codecs.length; i++) {
                for (ConsumerRecord<?, ?> record : consumer.poll(Duration.ofMillis(100))) {
                    long expected = next.merge(record.partition(), 1L, Long::sum) - 1;
                    same(expected, record.offset(), "offsets without a gap");
                    long n = record.offset() % 100 * 2 + record.partition();
                    same("value-" + n, record.value(), "in the order sent");
                    taken++;
                }
            }
            same(Map.of(0, 500L, 1, 500L), next, "records per partition");
            return null;
        });
    }
}
