package suite;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a scenario plays with: a group and topics of its own, members, and ways to wait. */
final class Scene implements AutoCloseable {
    /** How long anything may take that is waited for: a rebalance on a busy machine. */
    private static final long PATIENCE_MS = 30_000;

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Call {
        void run() throws Exception;
    }

    final String group;
    final Admin admin;
    private final String bootstrap;
    private final List<Participant> members = new ArrayList<>();
    private final Set<Participant> failing = new HashSet<>();

    Scene(String bootstrap, Admin admin, String name) {
        this.bootstrap = bootstrap;
        this.admin = admin;
        String own = UUID.randomUUID().toString().substring(0, 8);
        this.group = name.replaceAll("\\W+", "-") + "-" + own;
    }

    String topic(int partitions) throws Exception {
        return topic("", partitions);
    }

    /** Create a topic named after the group, and wait until the broker knows it as well. */
    String topic(String suffix, int partitions) throws Exception {
        String name = group + suffix;
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        until("the topic is there", () -> admin.listTopics().names().get().contains(name));
        return name;
    }

    /** Produce records evenly to all partitions of a topic; the time of the n-th is n + 1 000. */
    void produce(String topic, int records, String... settings) throws Exception {
        Map<String, Object> all = pairs(settings);
        all.putIfAbsent("acks", "all");
        all.put("bootstrap.servers", bootstrap);
        all.put("key.serializer", StringSerializer.class.getName());
        all.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(all)) {
            int partitions = producer.partitionsFor(topic).size();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < records; n++) {
                sent.add(producer.send(new ProducerRecord<>(
                    topic, n % partitions, 1_000L + n, "key-" + n, "value-" + n)));
                if (n < partitions) {
                    // A broker may refuse the first batch of a new partition while it takes over
                    // its leadership, and accept the second: an idempotent producer with several
                    // in flight then never finds its way back.
                    sent.get(n).get(30, TimeUnit.SECONDS);
                }
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(30, TimeUnit.SECONDS);
            }
        }
    }

    /** A producer of bytes, as by default but for the longest that it makes its user wait. */
    KafkaProducer<byte[], byte[]> producer(int maxBlockSeconds, String... settings) {
        Map<String, Object> all = pairs(settings);
        all.put("bootstrap.servers", bootstrap);
        all.put("max.block.ms", String.valueOf(maxBlockSeconds * 1_000));
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A consumer of bytes that reads all partitions of a topic from their beginning. */
    KafkaConsumer<byte[], byte[]> reader(String topic, int partitions) {
        Map<String, Object> all = pairs("bootstrap.servers", bootstrap);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> everything = IntStream.range(0, partitions)
            .mapToObj(number -> partition(topic, number)).collect(Collectors.toList());
        consumer.assign(everything);
        consumer.seekToBeginning(everything);
        return consumer;
    }

    /** A member of the group that has not subscribed; settings are names and values in turn. */
    Member member(String... settings) {
        Map<String, Object> all = consumerSettings(group);
        all.put("bootstrap.servers", bootstrap);
        all.put("client.id", "m" + (members.size() + 1));
        all.putAll(pairs(settings));
        Member member = new Member(all);
        members.add(member);
        return member;
    }

    /** What every consumer of the scenarios starts from: quick heartbeats, explicit commits. */
    static Map<String, Object> consumerSettings(String group) {
        Map<String, Object> all = new HashMap<>();
        all.put("group.id", group);
        all.put("key.deserializer", StringDeserializer.class.getName());
        all.put("value.deserializer", StringDeserializer.class.getName());
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.put("heartbeat.interval.ms", "200");
        all.put("session.timeout.ms", "10000");
        all.put("partition.assignment.strategy", Assignors.RANGE);
        return all;
    }

    private static Map<String, Object> pairs(String... settings) {
        Map<String, Object> all = new HashMap<>();
        for (int i = 0; i < settings.length; i += 2) {
            all.put(settings[i], settings[i + 1]);
        }
        return all;
    }

    /** A member that subscribes to a topic and polls. */
    Member join(String topic, String... settings) throws Exception {
        return member(settings).subscribe(topic);
    }

    /** A member of the group in a process of its own, with another version of the client. */
    Peer peer(String version, String topic, String... settings) throws Exception {
        Map<String, Object> all = consumerSettings(group);
        all.put("bootstrap.servers", bootstrap);
        all.put("client.id", "peer-" + version);
        all.putAll(pairs(settings));
        Peer peer = new Peer(version, topic, all);
        members.add(peer);
        return peer;
    }

    static void expect(boolean holds, String what, Object... values) {
        if (!holds) {
            throw new AssertionError("not so: " + what.formatted(values));
        }
    }

    static void same(Object expected, Object actual, String what) {
        expect(expected.equals(actual), "%s: expected %s, not %s", what, expected, actual);
    }

    /** Wait until something holds; a member that failed unasked ends the wait. */
    void until(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!condition.holds()) {
            for (Participant member : members) {
                if (member.failure() != null && !failing.contains(member)) {
                    throw new AssertionError("waiting for '" + what + "': " + member);
                }
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("waited in vain for '" + what + "': " + members);
            }
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    /** Wait until members hold so many partitions each, and no partition twice. */
    void shares(int each, Participant... sharing) throws Exception {
        until(each + " partitions each", () -> {
            Set<TopicPartition> all = new HashSet<>();
            for (Participant member : sharing) {
                all.addAll(member.assignment());
            }
            return all.size() == each * sharing.length
                && Arrays.stream(sharing).allMatch(member -> member.has(each));
        });
    }

    /** Wait until nobody has taken part in a rebalance for a while: the follow-ups are over. */
    void settled(Participant... members) throws Exception {
        long[] since = {System.nanoTime()};
        int[][] seen = {rebalances(members)};
        until("no more rebalances", () -> {
            int[] now = rebalances(members);
            if (!Arrays.equals(seen[0], now)) {
                seen[0] = now;
                since[0] = System.nanoTime();
            }
            return System.nanoTime() - since[0] > TimeUnit.MILLISECONDS.toNanos(1_200);
        });
    }

    private static int[] rebalances(Participant... members) {
        return Arrays.stream(members).mapToInt(Participant::rebalances).toArray();
    }

    /** Wait until so many different records were consumed by anybody, whoever is gone included. */
    void consumed(int records) throws Exception {
        until(records + " records consumed", () -> new HashSet<>(seen()).size() >= records);
    }

    /** As consumed, and no record twice. */
    void consumedOnce(int records) throws Exception {
        consumed(records);
        List<String> seen = seen();
        same(records, new HashSet<>(seen).size(), "different records");
        same(records, seen.size(), "records");
    }

    private List<String> seen() {
        List<String> all = new ArrayList<>();
        members.forEach(member -> all.addAll(member.consumed()));
        return all;
    }

    /** Wait until a member ends with an error of a class. */
    void untilFails(Member member, Class<? extends Throwable> error) throws Exception {
        failing.add(member);
        until(member + " fails", () -> member.failure() != null);
        expect(error.isInstance(member.failure()), "%s fails with %s", member, error);
    }

    /** Expect a call to end with an error of a class, itself or as the cause. */
    static void throwsError(Class<? extends Throwable> error, Call call) throws Exception {
        try {
            call.run();
        } catch (Exception thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            expect(error.isInstance(cause), "%s, not %s", error.getSimpleName(), cause);
            return;
        }
        throw new AssertionError("not so: " + error.getSimpleName() + " is thrown");
    }

    /** For a while, expect that nobody of these takes part in a rebalance. */
    static void quiet(long milliseconds, Participant... members) throws Exception {
        int[] before = rebalances(members);
        TimeUnit.MILLISECONDS.sleep(milliseconds);
        expect(Arrays.equals(before, rebalances(members)),
            "no rebalance: %s", Arrays.toString(members));
    }

    Map<TopicPartition, OffsetAndMetadata> committed() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    static TopicPartition partition(String topic, int number) {
        return new TopicPartition(topic, number);
    }

    static Set<TopicPartition> partitions(String topic, Collection<Integer> numbers) {
        Set<TopicPartition> all = new HashSet<>();
        numbers.forEach(number -> all.add(partition(topic, number)));
        return all;
    }

    @Override
    public void close() {
        members.forEach(Participant::close);
    }
}
