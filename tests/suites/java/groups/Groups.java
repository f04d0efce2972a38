import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Groups of every kind on one broker, for suites that read their log:
 * `java Groups.java BOOTSTRAP FOLDER ACT...`, or without acts all of them. It prints a line for each
 * act, "done NAME" or "failed NAME: why", then "ready", and keeps its members until it is ended.
 */
public final class Groups {
    private static final String PARCELS = "parcels";
    private static final int PARTITIONS = 6;
    private static final List<String> TOPICS = List.of(PARCELS);
    private static final long WAIT_MS = 45_000;

    private final String bootstrap;
    private final Path folder;
    private final Admin admin;
    private final List<Object> kept = new ArrayList<>();

    private interface Act {
        void play() throws Exception;
    }

    private Groups(String bootstrap, Path folder) {
        this.bootstrap = bootstrap;
        this.folder = folder;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] words) throws Exception {
        Groups groups = new Groups(words[0], Path.of(words[1]));
        groups.makeTopics();
        Map<String, Act> acts = groups.acts();
        if (words.length > 2) {
            acts.keySet().retainAll(Arrays.asList(words).subList(2, words.length));
        }
        for (Map.Entry<String, Act> each : acts.entrySet()) {
            try {
                each.getValue().play();
                System.out.println("done " + each.getKey());
            } catch (Exception | AssertionError error) {
                System.out.println("failed " + each.getKey() + ": " + error);
            }
        }
        System.out.println("ready");
        Thread.sleep(Long.MAX_VALUE);
    }

    private Map<String, Act> acts() {
        Map<String, Act> acts = new LinkedHashMap<>();
        acts.put("range", () -> keepTwo("range"));
        acts.put("static", this::staticRestart);
        acts.put("removed", this::removedByAdmin);
        acts.put("emptied", () -> joined("emptied").close());
        acts.put("expired", this::expired);
        acts.put("deleted", () -> bornAndDeleted("deleted"));
        acts.put("reborn", () -> {
            bornAndDeleted("reborn");
            joined("reborn").close();
        });
        acts.put("offsets", this::offsets);
        acts.put("names", this::names);
        acts.put("transactions", this::transactions);
        acts.put("consumer", this::consumerProtocol);
        acts.put("conversions", this::conversions);
        acts.put("share", this::share);
        acts.put("streams", () -> streams("streams", "at_least_once"));
        acts.put("streams-classic", () -> streams("classic", "exactly_once_v2"));
        return acts;
    }

    private void makeTopics() throws Exception {
        Set<String> known = admin.listTopics().names().get();
        Map<String, Integer> wanted =
            Map.of(PARCELS, PARTITIONS, "parcels-too", 2, "streams-in", 2, "streams-out", 2);
        for (Map.Entry<String, Integer> each : wanted.entrySet()) {
            if (!known.contains(each.getKey())) {
                NewTopic topic = new NewTopic(each.getKey(), each.getValue(), (short) 1);
                admin.createTopics(List.of(topic)).all().get();
            }
        }
        try (var producer = new KafkaProducer<String, String>(producing())) {
            for (int number = 0; number < 120; number++) {
                int of = number;
                wanted.forEach((topic, count) -> producer.send(
                    new ProducerRecord<>(topic, of % count, "k" + of % 7, "v" + of)));
            }
        }
    }

    // -- classic groups ------------------------------------------------------------------------

    private void keepTwo(String group, Object... more) throws Exception {
        settled(PARTITIONS, keep(new Member(group, TOPICS, more)),
            keep(new Member(group, TOPICS, more)));
    }

    private Member joined(String group, Object... more) throws Exception {
        Member member = new Member(group, TOPICS, more);
        settled(PARTITIONS, member);
        return member;
    }

    private void staticRestart() throws Exception {
        Object[] each = {"partition.assignment.strategy", CooperativeStickyAssignor.class.getName(),
            "session.timeout.ms", 20_000, "group.instance.id", "static-0"};
        Member one = keep(new Member("static", TOPICS, each));
        each[each.length - 1] = "static-1";
        Member two = new Member("static", TOPICS, each);
        settled(PARTITIONS, one, two);
        two.close();
        Thread.sleep(1_500);
        settled(PARTITIONS, one, keep(new Member("static", TOPICS, each)));
    }

    private void removedByAdmin() throws Exception {
        Member one = keep(new Member("removed", TOPICS, "group.instance.id", "removed-0"));
        Member two = new Member("removed", TOPICS, "group.instance.id", "removed-1");
        settled(PARTITIONS, one, two);
        two.close();
        admin.removeMembersFromConsumerGroup("removed", new RemoveMembersFromConsumerGroupOptions(
            List.of(new MemberToRemove("removed-1")))).all().get();
        settled(PARTITIONS, one);
    }

    private void expired() throws Exception {
        Member one = joined("expired", "session.timeout.ms", 6_000, "heartbeat.interval.ms", 1_000);
        one.leaves = false;
        one.close();
        await("the session is over", () -> admin.describeConsumerGroups(List.of("expired")).all()
            .get().get("expired").members().isEmpty());
    }

    private void bornAndDeleted(String group, Object... more) throws Exception {
        joined(group, more).close();
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    // -- offsets -------------------------------------------------------------------------------

    private void offsets() throws Exception {
        commit("simple", 5, "x".repeat(4000));
        commit("huge", Long.MAX_VALUE - 5, "");
        commit("some-deleted", 11, "");
        commit("all-deleted", 11, "");
        TopicPartition zero = new TopicPartition(PARCELS, 0), one = new TopicPartition(PARCELS, 1);
        admin.deleteConsumerGroupOffsets("some-deleted", Set.of(one)).all().get();
        admin.deleteConsumerGroupOffsets("all-deleted", Set.of(zero, one)).all().get();
        OffsetAndMetadata offset = new OffsetAndMetadata(99, Optional.of(7), "by admin");
        admin.alterConsumerGroupOffsets("altered", Map.of(one, offset)).all().get();
    }

    private void names() {
        for (String each : List.of("gr\u00fcn,comma", "\u65e5\u672c\ud83d\ude00", "a".repeat(249),
                "../../etc/passwd", "<script>alert(1)</script>", "=1+1", "\u001b[31mred")) {
            commit(each, 7, "=meta");
        }
    }

    private void commit(String group, long offset, String metadata) {
        try (var consumer = new KafkaConsumer<String, String>(consuming(group))) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (int each = 0; each < 2; each++) {
                offsets.put(new TopicPartition(PARCELS, each),
                    new OffsetAndMetadata(offset + each, metadata));
            }
            consumer.commitSync(offsets);
        }
    }

    private void transactions() {
        var one = transactional("t-1");
        send(one, "tx", 0, 10).commitTransaction();
        send(one, "tx", 0, 20).abortTransaction();
        send(one, "tx", 1, 30).commitTransaction();
        var two = transactional("t-2");
        send(two, "tx-overtaken", 0, 77);
        commit("tx-overtaken", 12, "");
        two.commitTransaction();
        send(one, "tx-two", 0, 100);
        send(two, "tx-two", 0, 200).commitTransaction();
        one.abortTransaction();
        var fenced = transactional("t-3");
        send(fenced, "tx-fenced", 0, 1000);
        var next = transactional("t-3");
        send(next, "tx-fenced", 0, 4).commitTransaction();
        send(one, "tx-aborted", 0, 1000).abortTransaction();
        send(two, "tx-open", 0, 1).commitTransaction();
        kept.add(send(two, "tx-open", 0, 555));
        kept.add(send(one, "tx-pending", 0, 555));
    }

    private KafkaProducer<String, String> transactional(String name) {
        Map<String, Object> settings = producing();
        settings.putAll(Map.of("transactional.id", name, "transaction.timeout.ms", 600_000));
        var producer = new KafkaProducer<String, String>(settings);
        producer.initTransactions();
        return producer;
    }

    private static KafkaProducer<String, String> send(
            KafkaProducer<String, String> producer, String group, int partition, long offset) {
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition(PARCELS, partition), new OffsetAndMetadata(offset)),
            new ConsumerGroupMetadata(group));
        return producer;
    }

    // -- newer groups --------------------------------------------------------------------------

    private static final Object[] CONSUMER = {"group.protocol", "consumer"};

    private void consumerProtocol() throws Exception {
        Object[] fixed = {"group.protocol", "consumer", "group.instance.id", "fixed"};
        settled(PARTITIONS, keep(new Member("consumer", TOPICS, CONSUMER)),
            keep(new Member("consumer", TOPICS, fixed)));
        Member away = new Member("consumer-away", TOPICS, fixed);
        settled(PARTITIONS, keep(new Member("consumer-away", TOPICS, CONSUMER)), away);
        away.close();
        joined("consumer-emptied", CONSUMER).close();
        bornAndDeleted("consumer-deleted", CONSUMER);
        SubscriptionPattern pattern = new SubscriptionPattern("parcels.*");
        settled(PARTITIONS + 2, keep(new Member("consumer-regex", pattern, CONSUMER)));
    }

    private void conversions() throws Exception {
        Member up = joined("up");
        Member newer = keep(new Member("up", TOPICS, CONSUMER));
        settled(PARTITIONS, up, newer);
        up.close();
        settled(PARTITIONS, newer);
        Member mixed = keep(joined("mixed"));
        settled(PARTITIONS, mixed, keep(new Member("mixed", TOPICS, CONSUMER)));
        Member down = joined("down", CONSUMER);
        Member older = keep(new Member("down", TOPICS));
        settled(PARTITIONS, down, older);
        down.close();
        settled(PARTITIONS, older);
        joined("down-empty", CONSUMER).close();
        keep(joined("down-empty"));
    }

    private void share() throws Exception {
        for (String group : List.of("share", "share-emptied", "share-deleted")) {
            Map<String, Object> settings = consuming(group);
            settings.keySet().removeAll(Set.of("auto.offset.reset", "enable.auto.commit"));
            var consumer = new KafkaShareConsumer<String, String>(settings);
            consumer.subscribe(TOPICS);
            await(group + " has a member", () -> {
                consumer.poll(Duration.ofMillis(300));
                try {
                    return admin.describeShareGroups(List.of(group)).all().get().get(group)
                        .members().stream()
                        .anyMatch(each -> !each.assignment().topicPartitions().isEmpty());
                } catch (ExecutionException error) {
                    return false; // It is not there yet.
                }
            });
            if (group.equals("share")) {
                Thread polling = new Thread(() -> {
                    while (true) {
                        consumer.poll(Duration.ofMillis(300));
                    }
                });
                polling.setDaemon(true);
                polling.start();
            } else {
                consumer.close();
            }
        }
        admin.deleteShareGroups(List.of("share-deleted")).all().get();
    }

    private void streams(String protocol, String guarantee) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("streams-in").to("streams-out");
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap,
            "application.id", "streams-" + protocol, "group.protocol", protocol,
            "processing.guarantee", guarantee, "num.stream.threads", 2, "commit.interval.ms", 500,
            "default.key.serde", Serdes.StringSerde.class.getName(),
            "default.value.serde", Serdes.StringSerde.class.getName(),
            "state.dir", folder.resolve("streams-" + protocol).toString()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        kept.add(streams);
        streams.start();
        await("it runs", () -> streams.state() == KafkaStreams.State.RUNNING);
        Thread.sleep(4_000);
    }

    // -- what all use --------------------------------------------------------------------------

    private Map<String, Object> consuming(String group, Object... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap,
            "group.id", group, "client.id", "client-" + group,
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName(),
            "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        for (int each = 0; each < more.length; each += 2) {
            settings.put((String) more[each], more[each + 1]);
        }
        return settings;
    }

    private Map<String, Object> producing() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap,
            "key.serializer", StringSerializer.class.getName(),
            "value.serializer", StringSerializer.class.getName()));
    }

    private Member keep(Member member) {
        kept.add(member);
        return member;
    }

    /** Until these members have all partitions, each some, and have committed for them. */
    private static void settled(int partitions, Member... members) throws Exception {
        for (Member each : members) {
            each.commits = true;
        }
        await("they share " + partitions, () -> {
            Set<TopicPartition> all = new HashSet<>();
            int sum = 0;
            for (Member each : members) {
                sum += each.owned.isEmpty() ? partitions + 1 : each.owned.size();
                all.addAll(each.owned);
            }
            return sum == partitions && all.size() == partitions;
        });
        for (Member each : members) {
            int before = each.committed;
            await("it commits", () -> each.committed >= before + 2);
        }
        for (Member each : members) {
            each.commits = false;
        }
        Thread.sleep(300);
    }

    private static void await(String what, Callable<Boolean> done) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!done.call()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError("not within " + WAIT_MS + " ms: " + what);
            }
            Thread.sleep(100);
        }
    }

    /** A consumer that polls in a thread of its own, and commits if it is to. */
    private final class Member {
        private final KafkaConsumer<String, String> consumer;
        private final Thread thread = new Thread(this::run);
        private volatile Set<TopicPartition> owned = Set.of();
        private volatile int committed;
        private volatile boolean commits = true;
        private volatile boolean leaves = true;
        private volatile boolean stops;

        private Member(String group, Object topics, Object... more) {
            consumer = new KafkaConsumer<>(consuming(group, more));
            if (topics instanceof SubscriptionPattern pattern) {
                consumer.subscribe(pattern);
            } else {
                consumer.subscribe(TOPICS);
            }
            thread.setDaemon(true);
            thread.start();
        }

        private void run() {
            while (!stops) {
                consumer.poll(Duration.ofMillis(200));
                owned = Set.copyOf(consumer.assignment());
                if (commits && !owned.isEmpty()) {
                    commit();
                }
            }
            consumer.close(CloseOptions.groupMembershipOperation(leaves
                ? GroupMembershipOperation.DEFAULT : GroupMembershipOperation.REMAIN_IN_GROUP));
        }

        private void commit() {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition each : owned) {
                offsets.put(each, new OffsetAndMetadata(
                    committed % 20, Optional.of(3), "m\u00e9ta " + committed));
            }
            try {
                consumer.commitSync(offsets, Duration.ofSeconds(5));
                committed++;
            } catch (KafkaException error) {
                // A rebalance is under way.
            }
        }

        private void close() throws InterruptedException {
            stops = true;
            thread.join(20_000);
        }
    }
}
