package suite;

import static suite.Scene.expect;
import static suite.Scene.partition;
import static suite.Scene.same;
import static suite.Scene.throwsError;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What came after 2.8: reasons (KIP-800), group types, offsets of several groups, defaults. */
public final class Since39 implements Scenario.Source {
    @Override
    public List<Scenario> scenarios() {
        return List.of(
            new Scenario("enforce rebalance with a reason", Since39::enforceRebalance),
            new Scenario("default settings", Since39::defaults),
            new Scenario("admin: list types", Since39::listTypes),
            new Scenario("admin: remove all with a reason", Since39::removeAll),
            new Scenario("admin: list offsets of several groups", Since39::severalGroups),
            new Scenario("admin: list topic offsets", Since39::topicOffsets),
            new Scenario("topics: describe", Since39::describeTopics));
    }

    private static void enforceRebalance(Scene s) throws Exception {
        Member one = s.join(s.topic(2));
        s.shares(2, one);
        s.settled(one);
        int before = one.rebalances();
        one.ask(consumer -> {
            consumer.enforceRebalance("because we want to");
            return null;
        });
        s.until("another rebalance", () -> one.rebalances() > before);
        s.shares(2, one);
    }

    /** The producer and the consumer as they are: idempotent; range, then cooperative-sticky. */
    private static void defaults(Scene s) throws Exception {
        String topic = s.topic(2);
        s.produce(topic, 500, "batch.size", "256");
        String[] both = {"partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.RangeAssignor,"
                + "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "session.timeout.ms", "45000", "heartbeat.interval.ms", "3000"};
        Member one = s.join(topic, both);
        s.consumedOnce(500);
        one.close();
        Member two = s.join(topic, both);
        s.shares(2, two);
        s.produce(topic, 100);
        s.consumedOnce(600);
    }

    private static void listTypes(Scene s) throws Exception {
        s.shares(1, s.join(s.topic(1)));
        same(Optional.of(GroupType.CLASSIC), listed(s, Set.of()), "type");
        same(Optional.of(GroupType.CLASSIC), listed(s, Set.of(GroupType.CLASSIC)), "type");
        same(Optional.empty(), listed(s, Set.of(GroupType.CONSUMER)), "not of the other type");
    }

    private static Optional<GroupType> listed(Scene s, Set<GroupType> types) throws Exception {
        return s.admin.listConsumerGroups(new ListConsumerGroupsOptions().withTypes(types))
            .all().get().stream().filter(group -> group.groupId().equals(s.group))
            .map(ConsumerGroupListing::type).findFirst().orElse(Optional.empty());
    }

    private static void removeAll(Scene s) throws Exception {
        Member one = s.join(s.topic(1));
        s.shares(1, one);
        s.settled(one);
        int before = one.rebalances();
        var options = new RemoveMembersFromConsumerGroupOptions();
        options.reason("maintenance");
        s.admin.removeMembersFromConsumerGroup(s.group, options).all().get();
        s.until("it joins anew", () -> one.rebalances() > before && one.has(1));
    }

    private static void severalGroups(Scene s) throws Exception {
        TopicPartition zero = partition(s.topic(2), 0);
        TopicPartition one = partition(zero.topic(), 1);
        OffsetAndMetadata five = new OffsetAndMetadata(5, "m");
        s.admin.alterConsumerGroupOffsets(s.group + "-a", Map.of(zero, five)).all().get();
        s.admin.alterConsumerGroupOffsets(s.group + "-b", Map.of(zero, five, one, five))
            .all().get();
        var some = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(zero));
        var every = new ListConsumerGroupOffsetsSpec();
        var all = s.admin.listConsumerGroupOffsets(Map.of(s.group + "-a", every,
            s.group + "-b", some, s.group + "-c", every)).all().get();
        same(Map.of(zero, five), all.get(s.group + "-a"), "all of the first");
        same(Map.of(zero, five), all.get(s.group + "-b"), "one of the second");
        expect(all.get(s.group + "-c").isEmpty(), "none of an unknown one");
    }

    private static void topicOffsets(Scene s) throws Exception {
        String topic = s.topic(1);
        s.produce(topic, 10);
        TopicPartition zero = partition(topic, 0);
        same(10L, s.admin.listOffsets(Map.of(zero, OffsetSpec.latest())).all().get()
            .get(zero).offset(), "latest");
        same(0L, s.admin.listOffsets(Map.of(zero, OffsetSpec.earliest())).all().get()
            .get(zero).offset(), "earliest");
        same(9L, s.admin.listOffsets(Map.of(zero, OffsetSpec.maxTimestamp())).all().get()
            .get(zero).offset(), "largest timestamp");
    }

    private static void describeTopics(Scene s) throws Exception {
        String topic = s.topic(3);
        var described = s.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        same(3, described.partitions().size(), "partitions");
        expect(!described.isInternal(), "not internal: %s", described);
        var byId = s.admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId())));
        same(topic, byId.allTopicIds().get().get(described.topicId()).name(), "name of the id");
        throwsError(UnknownTopicOrPartitionException.class, () ->
            s.admin.describeTopics(List.of(topic + "-no")).allTopicNames().get());
        throwsError(UnknownTopicIdException.class, () -> s.admin
            .describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid())))
            .allTopicIds().get());
    }
}
